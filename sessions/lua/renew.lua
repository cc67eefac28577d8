-- The holder of the token keeps it longer: a worker its lease, a person their presence.
-- ARGV 3 epoch, 4 fence, 5 ms ('' = as usual), 6 a worker's usual lease in ms
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local usual = o.kind == 'human' and presence(o) or ARGV[6]
local now = now_ms()
o.lease = lease_end(now, ARGV[5] == '' and usual or ARGV[5])
redis.call('HSET', OWN, 'lease', int(o.lease))
reschedule(o, now)
return {'OK', int(o.lease)}
