-- Commit and change of owner in one: before it the old owner owns, after it only the new one.
-- KEYS 8 idem, 9 history of the old owner, 10 history of the new owner
-- ARGV 3 epoch, 4 fence, 5 answered, 6 idem ttl s, 7 meta ('' = keep), 8 old agent ('' = none), 9 drop,
--      10 new kind, 11 new id, 12 new fence ('' = nobody goes on), 13 wid, 14 lease ms, 15 expected seq ('' = any),
--      16 decided by, 17 data of owner.changed, 18 max in, 19 history tail
--      20.. events before (type, by, data), items (json), seed (json), values (key, json, expected revision), events after
local idem, hist_from, hist_to = KEYS[8], KEYS[9], KEYS[10]
local prev = redis.call('GET', idem)
if prev then return {'DUP', prev} end
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local before, items, seed, writes, after, i
before, i = group(20, 3)
items, i = group(i, 1)
seed, i = group(i, 1)
writes, i = group(i, 3)
after, i = group(i, 3)
if ARGV[15] ~= '' and ARGV[15] ~= int(o.seq) then return {'CONFLICT', 'log', int(o.seq)} end
local answered = tonumber(ARGV[5])
if redis.call('LLEN', IN) < answered then return {'CONFLICT', 'inbox', int(redis.call('LLEN', IN))} end
local key, rev = stale_value(writes)
if key then return {'CONFLICT', 'value ' .. key, rev} end
-- writes from here on
local now = now_ms()
local from, to = o.kind .. ':' .. o.owner, ARGV[10] .. ':' .. ARGV[11]
local ids = {}
for _, e in ipairs(before) do ids[#ids + 1] = append(o, now, e[1], e[2] == '' and from or e[2], e[3]) end
write_history(hist_from, tonumber(ARGV[9]), items)
write_values(writes)
if answered > 0 then redis.call('LTRIM', IN, answered, -1) end
if ARGV[8] ~= '' then redis.call('HSET', OWN, 'seen:' .. ARGV[8], int(o.seq)) end
if o.draft ~= '' then redis.call('DEL', DRAFT) end
o.draft = ''
o.epoch = int(math.max(tonumber(o.epoch) + 1, now))
ids[#ids + 1] = append(o, now, 'owner.changed', ARGV[16] == '' and from or ARGV[16], ARGV[17], from, to)
for _, e in ipairs(after) do ids[#ids + 1] = append(o, now, e[1], e[2] == '' and from or e[2], e[3]) end
local history = {}
if ARGV[10] == 'ai' then
  history = redis.call('LRANGE', hist_to, -tonumber(ARGV[19]), -1)
  for _, item in ipairs(seed) do redis.call('RPUSH', hist_to, item[1]) end
  redis.call('HSET', OWN, 'seen:' .. ARGV[11], int(o.seq))
end
o.kind, o.owner, o.fence, o.wid, o.lease = ARGV[10], ARGV[11], ARGV[12], '', 0
if o.fence ~= '' then o.wid, o.lease = ARGV[13], now + tonumber(ARGV[14]) end
redis.call('HSET', OWN, 'kind', o.kind, 'owner', o.owner, 'epoch', o.epoch, 'fence', o.fence, 'wid', o.wid,
           'lease', int(o.lease), 'att', '0', 'seq', int(o.seq), 'draft', '')
if ARGV[7] ~= '' then redis.call('HSET', OWN, 'meta', ARGV[7]) end
schedule(o, now)
if o.kind == 'ai' and o.fence == '' and redis.call('LLEN', IN) > 0 then redis.call('PUBLISH', READY, CID) end
local core = cjson.encode({int(o.seq), ids, o.epoch, o.fence})
redis.call('SET', idem, core, 'EX', ARGV[6])
return {'OK', core, history, redis.call('LRANGE', IN, 0, tonumber(ARGV[18]) - 1)}
