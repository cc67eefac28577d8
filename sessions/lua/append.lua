-- One event of a running turn, at once instead of with its commit. | KEYS 10 idem
-- ARGV 3 epoch, 4 fence, 5 idem ttl s, 6 type, 7 by ('' = the owner), 8 data
local prev = redis.call('GET', KEYS[10])
if prev then return {'DUP', prev} end
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
-- writes from here on
local now = now_ms()
local id = append(o, now, ARGV[6], ARGV[7] == '' and me(o) or ARGV[7], ARGV[8])
redis.call('HSET', OWN, 'seq', int(o.seq))
redis.call('ZADD', IDX, int(now), CID)
redis.call('SET', KEYS[10], id, 'EX', ARGV[5])
return {'OK', id}
