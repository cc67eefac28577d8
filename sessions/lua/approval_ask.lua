-- An agent asks whether it may make one call. The approval is bound to this agent since it became the owner.
-- KEYS 10 approval | ARGV 3 epoch, 4 fence, 5 id, 6 hash of the arguments, 7 valid ms, 8 default (granted|refused),
--      9 call, 10 data of approval.asked, 11 rebind (0|1)
local AP = KEYS[10]
local o = load_own()
local hash = redis.call('HGET', AP, 'hash')
if hash and hash ~= ARGV[6] then return {'REUSED'} end
if hash and ARGV[11] ~= '1' then return {'DUP', redis.call('HGETALL', AP), o and o.tenure or ''} end
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
if o.kind ~= 'ai' then return {'NOTAI', me(o)} end
-- writes from here on
local now = now_ms()
if hash then
  redis.call('HSET', AP, 'agent', o.owner, 'epoch', o.tenure)
else
  local deadline = int(now + tonumber(ARGV[7]))
  redis.call('HSET', AP, 'id', ARGV[5], 'state', 'asked', 'agent', o.owner, 'epoch', o.tenure, 'hash', ARGV[6],
             'deadline', deadline, 'default', ARGV[8], 'call', ARGV[9],
             'verdict', '', 'by', '', 'note', '', 'at', '0', 'use', '')
  append(o, now, 'approval.asked', me(o), ARGV[10])
end
local a = redis.call('HMGET', AP, 'state', 'deadline')
if a[1] == 'asked' then o.asks = without(o.asks, ARGV[5]) .. ARGV[5] .. '=' .. a[2] .. ' ' end
save(o)
redis.call('HSET', OWN, 'key:ap:' .. ARGV[5], '1')
schedule(o, now)
return {'OK', redis.call('HGETALL', AP), o.tenure}
