-- The holder's work becomes true at once: events, its history, values, answered messages. Given back when nothing waits.
-- KEYS 8 idem, 9 history of the agent
-- ARGV 3 epoch, 4 fence, 5 answered, 6 lease ms, 7 idem ttl s, 8 meta ('' = keep), 9 agent ('' = none), 10 drop, 11 max in
--      12.. events (type, by, data), items (json), values (key, json, expected revision)
local idem, hist = KEYS[8], KEYS[9]
local prev = redis.call('GET', idem)
if prev then return {'DUP', prev} end
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local events, items, writes, i
events, i = group(12, 3)
items, i = group(i, 1)
writes, i = group(i, 3)
local answered = tonumber(ARGV[5])
if redis.call('LLEN', IN) < answered then return {'CONFLICT', 'inbox', int(redis.call('LLEN', IN))} end
local key, rev = stale_value(writes)
if key then return {'CONFLICT', 'value ' .. key, rev} end
-- writes from here on
local now = now_ms()
local me = o.kind .. ':' .. o.owner
local ids = {}
for k, e in ipairs(events) do ids[k] = append(o, now, e[1], e[2] == '' and me or e[2], e[3]) end
write_history(hist, tonumber(ARGV[10]), items)
write_values(writes)
if answered > 0 then redis.call('LTRIM', IN, answered, -1) end
if ARGV[9] ~= '' then redis.call('HSET', OWN, 'seen:' .. ARGV[9], int(o.seq)) end
if ARGV[8] ~= '' then redis.call('HSET', OWN, 'meta', ARGV[8]) end
if o.draft ~= '' then redis.call('DEL', DRAFT) end
o.draft = ''
local waiting = redis.call('LRANGE', IN, 0, tonumber(ARGV[11]) - 1)
if o.kind == 'ai' and #waiting == 0 then o.fence, o.wid, o.lease = '', '', 0 else o.lease = now + tonumber(ARGV[6]) end
redis.call('HSET', OWN, 'seq', int(o.seq), 'att', '0', 'lease', int(o.lease), 'fence', o.fence, 'wid', o.wid, 'draft', '')
schedule(o, now)
local core = cjson.encode({int(o.seq), ids})
redis.call('SET', idem, core, 'EX', ARGV[7])
return {'OK', core, waiting}
