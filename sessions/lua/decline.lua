-- Somebody to whom the conversation was offered does not take it; the owner stays.
-- KEYS 10 idem of the offer | ARGV 3 offer id, 4 by, 5 data of offer.declined, 6 idem ttl s
local outcome = decoded(KEYS[10])
if ended_by(outcome, 'declined', ARGV[4]) then return {'OK', outcome[4]} end -- the same call again
local o = load_own()
if not o then return {'NOCONV'} end
local gone = offer_gone(o, outcome, ARGV[3])
if gone then return gone end
-- writes from here on
local now = now_ms()
end_offer(o, now, KEYS[10], 'declined', ARGV[4], ARGV[5], ARGV[6], ARGV[4])
save(o)
schedule(o, now)
return {'OK', int(o.seq)}
