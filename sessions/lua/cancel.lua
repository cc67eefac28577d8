-- The owner takes its offer back. | KEYS 10 idem of the offer
-- ARGV 3 epoch, 4 fence, 5 offer id, 6 data of offer.cancelled, 7 idem ttl s
local outcome = decoded(KEYS[10])
if ended_by(outcome, 'cancelled', ARGV[3] .. '.' .. ARGV[4]) then return {'OK', outcome[4]} end -- the same call again
local o = load_own()
if outcome and outcome[1] ~= 'pending' then return offer_gone(o, outcome, ARGV[5]) end
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local gone = offer_gone(o, outcome, ARGV[5])
if gone then return gone end
-- writes from here on
local now = now_ms()
end_offer(o, now, KEYS[10], 'cancelled', me(o), ARGV[6], ARGV[7], ARGV[3] .. '.' .. ARGV[4])
save(o)
schedule(o, now)
return {'OK', int(o.seq)}
