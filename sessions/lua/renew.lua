-- The holder of the token keeps it longer. | ARGV 3 epoch, 4 fence, 5 lease ms
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local now = now_ms()
o.lease = now + tonumber(ARGV[5])
redis.call('HSET', OWN, 'lease', int(o.lease))
schedule(o, now)
return {'OK', int(o.lease)}
