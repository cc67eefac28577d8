-- Commit and change of owner in one: before it the old owner owns, after it only the new one.
-- KEYS 10 idem, 11 history of the old owner, 12 history of the new owner, 13 records of runs
-- ARGV 3 epoch, 4 fence, 5 answered, 6 idem ttl s, 7 meta ('' = keep), 8 old agent ('' = none), 9 drop,
--      10 new kind, 11 new id, 12 new fence ('' = nobody goes on), 13 wid, 14 lease ms, 15 expected seq ('' = any),
--      16 decided by, 17 data of owner.changed, 18 max in, 19 history tail
--      20.. events before (type, by, data), items (json), seed (json), values (key, json, expected revision),
--      events after, then the run ('' = none), its record ('' = none), records kept
local idem, hist_from, hist_to = KEYS[10], KEYS[11], KEYS[12]
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
local waits = redis.call('LLEN', IN)
if waits < answered then return {'CONFLICT', 'inbox', int(waits)} end
local key, rev = stale_value(writes)
if key then return {'CONFLICT', 'value ' .. key, rev} end
-- writes from here on
local now = now_ms()
local ids = {}
local from = me(o)
append_all(o, now, before, from, ids)
write_history(hist_from, tonumber(ARGV[9]), items)
write_values(writes)
keep_record(KEYS[13], ARGV[i + 1], ARGV[i + 2])
settle_work(o, answered)
settle_draft(o)
if ARGV[8] ~= '' then redis.call('HSET', OWN, 'seen:' .. ARGV[8], int(o.seq)) end
local ends = ARGV[i] ~= '' and ARGV[12] == '' and ARGV[i] or nil -- the run, when nobody goes on with it
ids[#ids + 1] = change_owner(o, now, ARGV[10], ARGV[11], ARGV[16], ARGV[17], #after == 0 and ends or nil)
append_all(o, now, after, from, ids, ends)
local history = {}
if ARGV[10] == 'ai' then
  history = redis.call('LRANGE', hist_to, -tonumber(ARGV[19]), -1)
  for _, item in ipairs(seed) do redis.call('RPUSH', hist_to, item[1]) end
  redis.call('HSET', OWN, 'seen:' .. ARGV[11], int(o.seq))
end
if ARGV[12] ~= '' then o.fence, o.wid = ARGV[12], ARGV[13] end
if ARGV[12] ~= '' or o.kind == 'human' then o.lease = lease_end(now, ARGV[14]) end -- a person has time to turn up
save(o)
if ARGV[7] ~= '' then redis.call('HSET', OWN, 'meta', ARGV[7]) end
schedule(o, now)
if o.kind == 'ai' and o.fence == '' and has_work(o) then ready(o) end
local core = cjson.encode({int(o.seq), ids, o.epoch, o.fence})
redis.call('SET', idem, core, 'EX', ARGV[6])
return {'OK', core, history, redis.call('LRANGE', IN, 0, tonumber(ARGV[18]) - 1)}
