-- The values of a customer are deleted. What stays says only when: a turn that read them before writes no more of them.
-- KEYS 1 values of the customer | ARGV 1 life of what stays s
VARS = KEYS[1]
local gen = math.max(now_ms(), tonumber(redis.call('HGET', VARS, 'gen') or '0') + 1)
-- writes from here on
redis.call('DEL', VARS)
redis.call('HSET', VARS, 'gen', int(gen))
redis.call('EXPIRE', VARS, ARGV[1])
return {'OK', int(gen)}
