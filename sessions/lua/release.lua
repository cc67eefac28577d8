-- A worker gives its turn back without an answer (drain); the owner and the waiting messages stay.
-- ARGV 3 epoch, 4 fence
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local now = now_ms()
retract_draft(o, now)
o.fence, o.wid, o.lease = '', '', 0
redis.call('HSET', OWN, 'fence', '', 'wid', '', 'lease', '0')
schedule(o, now)
if redis.call('LLEN', IN) > 0 then redis.call('PUBLISH', READY, CID) end
return {'OK'}
