-- Time has passed (Redis' clock): what ran out is settled, and the caller is told what is to be done.
-- KEYS 10 idem of the offer that the caller saw
-- ARGV 3 max attempts, 4 id of that offer, 5 idem ttl s, 6 data of offer.expired,
--      7 queue for a person who is gone, 8 data of owner.changed ('' = leave the conversation with them),
--      9 data of the handoff's records without `from` ('' = none),
--      10 queue for a turn that never ends, 11 data of owner.changed ('' = go on trying), 12 as 9
local o = load_own()
if not o or o.st ~= 'open' then
  redis.call('ZREM', DUE, CID)
  return {'NOOP'}
end
local now = now_ms()
if o.offer ~= '' and now >= o.offer_by then
  if o.offer ~= ARGV[4] then return {'AGAIN'} end
  end_offer(o, now, KEYS[10], 'expired', 'system', ARGV[6], ARGV[5], '')
  save(o)
  schedule(o, now)
  return {'OFFER', ARGV[4]}
end
local ask, id = next_ask(o)
if ask and now >= ask then return {'ASK', id} end
if (o.kind == 'human' or o.kind == 'ai') and live(o, now) then
  reschedule(o, now)
  return {'LIVE', int(o.lease - now)}
end
local work = o.kind == 'ai' and has_work(o)
local why, queue, data, rest
if o.kind == 'human' then
  why, queue, data, rest = 'human_lost', ARGV[7], ARGV[8], ARGV[9]
elseif work and o.att >= tonumber(ARGV[3]) then
  why, queue, data, rest = 'poison', ARGV[10], ARGV[11], ARGV[12]
end
if why and data ~= '' then
  local from = hand_over(o, now, 'queue', queue, 'system', data, rest)
  save(o)
  schedule(o, now)
  redis.call('PUBLISH', REVOKED, CID)
  return {'MOVED', why, o.epoch, int(o.seq), from}
end
reschedule(o, now, true)
return {work and 'READY' or 'NOOP'}
