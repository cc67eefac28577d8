-- A person accepts a pending offer in time, and owns from here on. The same fence again gets the same token.
-- KEYS 10 idem of the offer
-- ARGV 3 offer id, 4 person, 5 new fence, 6 presence ms, 7 data of owner.changed, 8 idem ttl s,
--      9 data of the handoff's records without `from` ('' = none)
local outcome = decoded(KEYS[10])
if outcome and outcome[1] == 'accepted' and outcome[3] == ARGV[5] then return {'OK', unpack(outcome, 4, 6)} end
local o = load_own()
if not o then return {'NOCONV'} end
if o.st ~= 'open' then return {'CLOSED', o.st} end
local gone = offer_gone(o, outcome, ARGV[3])
if gone then return gone end
local now = now_ms()
if now >= o.offer_by then return {'GONE', 'expired', 'system'} end
local to = redis.call('HGET', XFER, 'to')
if to:sub(1, 6) == 'human:' and to ~= 'human:' .. ARGV[4] then return {'NOTYOURS', to} end
-- writes from here on
local done = change_to_person(o, now, ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[9])
outcome = {'accepted', 'human:' .. ARGV[4], ARGV[5], done[2], done[3], done[4]}
redis.call('SET', KEYS[10], cjson.encode(outcome), 'EX', ARGV[8])
return done
