-- Is what a client saw last still in the log? Reads only. | ARGV 3 epoch, 4 seq, 5 most events
local o = load_own()
if not o then return {'NOCONV'} end
if o.st == 'forgotten' then return {'CLOSED', o.st} end
local seq = tonumber(ARGV[4])
local at = seq == 0 and '0-0' or ARGV[3] .. '-' .. ARGV[4]
local first = redis.call('XRANGE', LOG, '-', '+', 'COUNT', 1)[1]
local oldest = first and tonumber(first[1]:match('%-(%d+)$')) or o.seq + 1
local state
if seq > o.seq then state = 'ahead'
elseif seq + 1 < oldest then state = 'trimmed'
elseif seq == 0 then state = 'ok'
elseif seq + 1 == oldest and tonumber(ARGV[3]) <= tonumber(first[1]:match('^%d+')) then state = 'ok' -- just trimmed
elseif #redis.call('XRANGE', LOG, at, at) == 1 then state = 'ok'
else state = 'rolled_back' end
if state ~= 'ok' then return {'OK', state, int(o.seq), o.epoch, {}} end
return {'OK', state, int(o.seq), o.epoch, redis.call('XRANGE', LOG, '(' .. at, '+', 'COUNT', ARGV[5])}
