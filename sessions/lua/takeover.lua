-- A person takes the conversation at once, whoever works on it; what was being streamed is taken back.
-- ARGV 3 person, 4 new fence, 5 presence ms, 6 expected epoch ('' = any), 7 force (0|1), 8 data of owner.changed
local o = load_own()
if not o then return {'NOCONV'} end
if o.st == 'closed' then return {'CLOSED'} end
local from = o.kind .. ':' .. o.owner
if o.fence == ARGV[4] then return {'OK', o.epoch, redis.call('HGET', OWN, 'before') or from, int(o.seq)} end -- the same call again
if ARGV[6] ~= '' and ARGV[6] ~= o.epoch then return {'CONFLICT', 'epoch', o.epoch} end
local now = now_ms()
if o.kind == 'human' and o.owner ~= ARGV[3] and o.lease > now and ARGV[7] ~= '1' then return {'BUSY', from, o.epoch} end
-- writes from here on
o.epoch = int(math.max(tonumber(o.epoch) + 1, now))
retract_draft(o, now)
append(o, now, 'owner.changed', 'human:' .. ARGV[3], ARGV[8], from, 'human:' .. ARGV[3])
o.kind, o.owner, o.fence, o.lease = 'human', ARGV[3], ARGV[4], now + tonumber(ARGV[5])
redis.call('HSET', OWN, 'kind', 'human', 'owner', o.owner, 'epoch', o.epoch, 'fence', o.fence, 'wid', '',
           'lease', int(o.lease), 'att', '0', 'seq', int(o.seq), 'before', from)
schedule(o, now)
redis.call('PUBLISH', REVOKED, CID)
return {'OK', o.epoch, from, int(o.seq)}
