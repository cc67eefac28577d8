-- One process leads a job of the whole desk, as long as it says so again in time. | KEYS 1 lead | ARGV 1 who, 2 life ms
local who = redis.call('GET', KEYS[1])
if who and who ~= ARGV[1] then return {'BUSY', who} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'OK', ARGV[1]}
