-- Somebody watches how agents work on this conversation, for a while. Whoever claims a turn is told, and shows it.
-- ARGV 3 ms
local o = load_own()
if not o then return {'NOCONV'} end
if o.st == 'forgotten' then return {'CLOSED', o.st} end
redis.call('HSET', OWN, 'watched', int(now_ms() + math.min(tonumber(ARGV[3]), MAX_LEASE)))
return {'OK'}
