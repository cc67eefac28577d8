-- Values of a customer change, all of them or none: every conversation of theirs sees them from then on.
-- KEYS 1 values of the customer, 2 idem
-- ARGV 1 idem ttl s, 2 life of the values s, 3 generation ('' = any), 4.. values (key, json, expected revision)
VARS = KEYS[1]
if redis.call('GET', KEYS[2]) then return {'DUP'} end
local gen = redis.call('HGET', VARS, 'gen') or '0'
if ARGV[3] ~= '' and ARGV[3] ~= gen then return {'CONFLICT', 'customer', gen} end
local writes = group(4, 3)
local key, rev = stale_value(writes)
if key then return {'CONFLICT', 'value ' .. key, rev} end
-- writes from here on
write_values(writes)
redis.call('EXPIRE', VARS, ARGV[2])
redis.call('SET', KEYS[2], '1', 'EX', ARGV[1])
return {'OK'}
