-- A sink (desk, webhook) has delivered the log up to an event. A cursor only moves forward; the log keeps the rest.
-- KEYS 10 cursor | ARGV 3 sink, 4 id of the event ('' = the sink is gone)
local o = load_own()
if not o then return {'NOCONV'} end
if o.st == 'forgotten' then return {'CLOSED', o.st} end
local field = 'key:cur:' .. ARGV[3]
if ARGV[4] == '' then
  redis.call('DEL', KEYS[10])
  redis.call('HDEL', OWN, field)
  return {'OK', ''}
end
local seq = tonumber(ARGV[4]:match('%-(%d+)$'))
if seq > o.seq then return {'CONFLICT', 'log', int(o.seq)} end
local known = redis.call('HGET', OWN, field)
if known and tonumber(known) >= seq then return {'OK', redis.call('GET', KEYS[10]) or ''} end
-- writes from here on
redis.call('SET', KEYS[10], ARGV[4], 'KEEPTTL')
redis.call('HSET', OWN, field, int(seq))
local left = redis.call('TTL', OWN)
if left > 0 then redis.call('EXPIRE', KEYS[10], left) end -- closed meanwhile: it goes with the rest
return {'OK', ARGV[4]}
