-- Shared values are set outside a turn (desk, API), all of them or none. | KEYS 10 idem
-- ARGV 3 by, 4 idem ttl s, 5 data of values.changed, 6.. values (key, json, expected revision)
local prev = redis.call('GET', KEYS[10])
if prev then return {'DUP', prev} end
local o = load_own()
if not o then return {'NOCONV'} end
if o.st ~= 'open' then return {'CLOSED', o.st} end
local writes = group(6, 3)
local key, rev = stale_value(writes)
if key then return {'CONFLICT', 'value ' .. key, rev} end
-- writes from here on
local now = now_ms()
write_values(writes)
append(o, now, 'values.changed', ARGV[3], ARGV[5])
redis.call('HSET', OWN, 'seq', int(o.seq))
redis.call('ZADD', IDX, int(now), CID)
redis.call('SET', KEYS[10], int(o.seq), 'EX', ARGV[4])
return {'OK', int(o.seq)}
