-- The holder offers the conversation to a queue or a person; it stays the owner until somebody accepts.
-- KEYS 10 idem of the offer
-- ARGV 3 epoch, 4 fence, 5 offer id, 6 to, 7 valid ms, 8 brief, 9 data of offer.made, 10 idem ttl s
local first = decoded(KEYS[10])
if first then return {'DUP', first[1], first[3] or '0', first[4] or '0'} end
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
if o.offer ~= '' then return {'PENDING', o.offer} end
-- writes from here on
local now = now_ms()
local deadline = now + tonumber(ARGV[7])
o.offer, o.offer_by = ARGV[5], deadline
append(o, now, 'offer.made', me(o), ARGV[9])
redis.call('HSET', XFER, 'id', ARGV[5], 'from', me(o), 'to', ARGV[6], 'deadline', int(deadline), 'brief', ARGV[8])
save(o)
schedule(o, now)
local ttl = tonumber(ARGV[10]) + math.ceil(tonumber(ARGV[7]) / 1000) -- known for a day after its end
redis.call('SET', KEYS[10], cjson.encode({'pending', me(o), int(o.seq), int(deadline)}), 'EX', int(ttl))
return {'OK', 'pending', int(o.seq), int(deadline)}
