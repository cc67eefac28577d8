-- The holder's work becomes true at once: events, its history, values, answered messages.
-- The turn is given back when nothing waits, or when it rests until somebody decides what it asks.
-- KEYS 10 idem, 11 history of the agent, 12 what a resting turn needs to go on, then one for each question,
--      last: records of runs
-- ARGV 3 epoch, 4 fence, 5 answered, 6 lease ms, 7 idem ttl s, 8 meta ('' = keep), 9 agent ('' = none), 10 drop,
--      11 max in, 12 events kept in the log,
--      13.. events (type, by, data), items (json), values (key, json, expected revision),
--      questions (id, hash of the arguments, valid ms, default, call, data of approval.asked),
--      rest (0|1): waiting messages stay until a decision, what it needs to go on ('' = keep, '-' = forget),
--      the run ('' = none), its record ('' = none), records kept
local idem, hist = KEYS[10], KEYS[11]
local prev = redis.call('GET', idem)
if prev then return {'DUP', prev} end
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local events, items, writes, i
events, i = group(13, 3)
items, i = group(i, 1)
writes, i = group(i, 3)
local asks
asks, i = group(i, 6)
local rests, needs = ARGV[i] == '1', ARGV[i + 1]
local answered = tonumber(ARGV[5])
local waits = redis.call('LLEN', IN)
if waits < answered then return {'CONFLICT', 'inbox', int(waits)} end
local key, rev = stale_value(writes)
if key then return {'CONFLICT', 'value ' .. key, rev} end
for n, a in ipairs(asks) do
  if redis.call('EXISTS', KEYS[12 + n]) == 1 then return {'CONFLICT', 'approval ' .. a[1], 'asked before'} end
end
-- writes from here on
local now = now_ms()
local ids = {}
local ends = ARGV[i + 2] ~= '' and (rests or waits == answered) and ARGV[i + 2] or nil -- the run, when it ends here
append_all(o, now, events, me(o), ids, #asks == 0 and ends or nil)
write_history(hist, tonumber(ARGV[10]), items)
write_values(writes)
keep_record(KEYS[#KEYS], ARGV[i + 3], ARGV[i + 4])
settle_work(o, answered)
settle_draft(o)
for n, a in ipairs(asks) do ask(o, now, KEYS[12 + n], n == #asks and ends or nil, unpack(a)) end
keep_rest(KEYS[12], needs)
if ARGV[9] ~= '' then redis.call('HSET', OWN, 'seen:' .. ARGV[9], int(o.seq)) end
if ARGV[8] ~= '' then redis.call('HSET', OWN, 'meta', ARGV[8]) end
local waiting = redis.call('LRANGE', IN, 0, tonumber(ARGV[11]) - 1)
o.hold = rests and '1' or ''
o.att, o.woken = 0, '' -- what woke this turn was in its grant; what came since is in o.wake
if o.kind == 'human' then
  o.lease = lease_end(now, presence(o)) -- who writes is present
elseif #waiting > 0 and not rests then
  o.lease = lease_end(now, ARGV[6])
else
  o.fence, o.wid, o.lease = '', '', 0
  if has_work(o) then ready(o) end
end
save(o)
trim_log(o, tonumber(ARGV[12]))
schedule(o, now)
local core = cjson.encode({int(o.seq), ids})
redis.call('SET', idem, core, 'EX', ARGV[7])
return {'OK', core, waiting}
