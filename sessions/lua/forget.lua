-- The customer's data is deleted. A tombstone stays, so that no late write can bring the conversation back.
-- KEYS 10.. every other key | ARGV 3 life of the tombstone s, 4.. names of KEYS 10..
local o = load_own()
if not o then return {'NOCONV'} end
if incomplete(group(4, 1)) then return {'AGAIN'} end
-- writes from here on
for i, key in ipairs(KEYS) do
  if key ~= DUE and key ~= IDX then redis.call('DEL', key) end
end
redis.call('ZREM', DUE, CID)
redis.call('ZREM', IDX, CID)
if o.st ~= 'forgotten' then o.epoch = next_epoch(o, now_ms()) end
local stone = new_own('nobody', '', 0)
stone.st, stone.epoch, stone.tenure, stone.seq = 'forgotten', o.epoch, o.epoch, o.seq
save(stone)
redis.call('EXPIRE', OWN, ARGV[3])
redis.call('PUBLISH', REVOKED, CID)
return {'OK', o.epoch}
