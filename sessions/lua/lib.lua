-- Shared by every script; prepended to each of them by sessions/scripts.py.
-- KEYS 1-9 and ARGV 1-2 are the same everywhere.
local OWN, IN, VARS, LOG, DUE, IDX, DRAFT, XFER, TJ = unpack(KEYS, 1, 9)
local CID, CHANNEL = ARGV[1], ARGV[2]
local READY, REVOKED = 'fd:ready', 'fd:revoked' -- sessions/keys.py has the same names
local MAX_LEASE = 600000 -- ms; a lease that ends later than this from now comes from a clock that was set back

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Tells the workers that there is work, and whose: so they ask for the right history at once.
local function ready(o) redis.call('PUBLISH', READY, CID .. ' ' .. o.owner) end

local function int(n) return string.format('%d', n) end

-- The owner record: fields that hold text, and those that hold numbers.
local TEXTS = {'st', 'kind', 'owner', 'epoch', 'fence', 'wid', 'draft', 'offer', 'asks', 'wake', 'woken', 'tenure', 'hold'}
local NUMBERS = {'lease', 'att', 'seq', 'offer_by', 'presence'}

-- The owner record as a table; nil when there is no conversation. `save` writes back what has changed.
local function load_own()
  local f = redis.call('HMGET', OWN, 'st', 'kind', 'owner', 'epoch', 'fence', 'wid', 'draft', 'offer', 'asks', 'wake',
                       'woken', 'tenure', 'hold', 'lease', 'att', 'seq', 'offer_by', 'presence')
  if not f[1] then return nil end
  local o, was = {}, {}
  for i, name in ipairs(TEXTS) do
    was[name] = f[i]
    o[name] = f[i] or ''
  end
  for i, name in ipairs(NUMBERS) do
    o[name] = tonumber(f[#TEXTS + i] or 0)
    was[name] = f[#TEXTS + i] and o[name]
  end
  o.was = was
  return o
end

-- The record of a conversation that begins now.
local function new_own(kind, owner, now)
  local epoch = int(now)
  return {st = 'open', kind = kind, owner = owner, epoch = epoch, fence = '', wid = '', draft = '', offer = '',
          asks = '', wake = '', woken = '', tenure = epoch, hold = '', lease = 0, att = 0, seq = 0, offer_by = 0, presence = 0,
          was = {}}
end

local function save(o)
  local out = {}
  for _, name in ipairs(TEXTS) do
    if o[name] ~= o.was[name] then
      out[#out + 1] = name
      out[#out + 1] = o[name]
    end
  end
  for _, name in ipairs(NUMBERS) do
    if o[name] ~= o.was[name] then
      out[#out + 1] = name
      out[#out + 1] = int(o[name])
    end
  end
  if #out > 0 then redis.call('HSET', OWN, unpack(out)) end
end

local function me(o) return o.kind .. ':' .. o.owner end

local function holds(o, epoch, fence) return o ~= nil and fence ~= '' and o.epoch == epoch and o.fence == fence end

local function fenced(o)
  if not o then return {'NOCONV'} end
  return {'FENCED', me(o), o.epoch}
end

-- Is the lease (of a worker, or a person's presence) still running? Only Redis' clock is asked.
local function live(o, now) return o.lease > now and o.lease <= now + MAX_LEASE end

local function lease_end(now, ms) return now + math.min(tonumber(ms), MAX_LEASE) end

-- How long a person is present after each sign of life, ms: as their takeover said.
local function presence(o) return o.presence > 0 and o.presence or 90000 end

local function next_epoch(o, now) return int(math.max(tonumber(o.epoch) + 1, now)) end

-- Appends one event to the log and tells the readers. The caller has set o.epoch, and saves o.seq afterwards.
-- `run` names the run that ends with this event; nil for all other events.
local function append(o, at, type, by, data, from, to, run)
  local seq = o.seq + 1
  local id = o.epoch .. '-' .. int(seq)
  if run then
    redis.call('XADD', LOG, id, 't', type, 'at', int(at), 'by', by, 'd', data, 'f', from or '', 'o', to or '', 'r', run)
  else
    redis.call('XADD', LOG, id, 't', type, 'at', int(at), 'by', by, 'd', data, 'f', from or '', 'o', to or '')
  end
  redis.call('PUBLISH', CHANNEL,
             cjson.encode({'E', int(seq), o.epoch, type, int(at), by, data, from or '', to or '', run}))
  o.seq = seq
  return id
end

-- Appends rows of (type, by, data); an empty `by` means `owner`. Adds their ids to `ids`. `run` ends with the last one.
local function append_all(o, at, rows, owner, ids, run)
  for n, e in ipairs(rows) do
    local by = e[2] == '' and owner or e[2]
    ids[#ids + 1] = append(o, at, e[1], by, e[3], nil, nil, n == #rows and run or nil)
  end
end

-- A streamed draft that will never become a message is taken back in front of everybody. The caller saves.
local function retract_draft(o, at)
  if o.draft == '' then return end
  append(o, at, 'msg.retracted', 'system', '{"id":"' .. o.draft .. '"}')
  redis.call('DEL', DRAFT)
  o.draft = ''
end

-- The draft is the message that is being written now, or its writer says so in an event: nothing to take back.
local function settle_draft(o)
  if o.draft ~= '' then redis.call('DEL', DRAFT) end
  o.draft = ''
end

-- Small sets inside one field: entries `id` or `id=ms`, each followed by a space. Ids hold neither (keys.ID_PATTERN).
local function without(entries, id)
  local kept = ''
  for entry in entries:gmatch('%S+') do
    if entry ~= id and entry:sub(1, #id + 1) ~= id .. '=' then kept = kept .. entry .. ' ' end
  end
  return kept
end

-- The approval that runs out first: its time and its id; nil when none waits.
local function next_ask(o)
  local at, id
  for name, ms in o.asks:gmatch('(%S+)=(%d+)') do
    if not at or tonumber(ms) < at then at, id = tonumber(ms), name end
  end
  return at, id
end

-- Customer messages wait, or an approval was decided: something that only a turn can go on with. A turn that rests
-- until somebody decides what it asks holds its messages back, and only that long.
local function held_back(o) return o.hold ~= '' and o.asks ~= '' end
local function has_work(o)
  return (not held_back(o) and redis.call('LLEN', IN) > 0) or o.wake ~= '' or o.woken ~= ''
end

-- When must somebody look at this conversation (store.attend)? The one place that decides it.
-- With `left` a person whose presence is over is nobody's business until something happens.
local function reschedule(o, now, left)
  local at
  local function no_later(ms) if not at or ms < at then at = ms end end
  if o.st == 'open' then
    if (o.kind == 'human' and not left) or (o.kind == 'ai' and has_work(o)) then
      no_later(live(o, now) and o.lease or now)
    end
    if o.offer ~= '' then no_later(o.offer_by) end
    local ask = next_ask(o)
    if ask then no_later(ask) end
  end
  if at then
    redis.call('ZADD', DUE, int(math.min(at, now + MAX_LEASE)), CID) -- a look too many costs less than one too late
  else
    redis.call('ZREM', DUE, CID)
  end
end

-- The same, after a change that people want to see on top of their list.
local function schedule(o, now)
  reschedule(o, now)
  redis.call('ZADD', IDX, int(now), CID)
end

-- Gives the turn to a worker: the epoch rises, so whoever worked before is fenced from here on. The caller saves.
local function take_lease(o, now, wid, fence, lease_ms)
  if o.fence ~= '' then redis.call('PUBLISH', REVOKED, CID) end
  o.epoch = next_epoch(o, now)
  o.fence, o.wid, o.att, o.lease = fence, wid, o.att + 1, lease_end(now, lease_ms)
  o.wake, o.woken = '', o.woken .. o.wake
  retract_draft(o, now)
end

-- The owner changes, and only here: the epoch rises, a pending offer and open approvals are void. The caller saves.
local function change_owner(o, now, kind, id, by, data, run)
  local from = me(o)
  o.epoch = next_epoch(o, now)
  retract_draft(o, now)
  if o.offer ~= '' then redis.call('DEL', XFER) end
  o.offer, o.offer_by, o.asks, o.wake, o.woken = '', 0, '', '', ''
  local event = append(o, now, 'owner.changed', by == '' and from or by, data, from, kind .. ':' .. id, run)
  o.kind, o.owner, o.tenure = kind, id, o.epoch
  o.fence, o.wid, o.lease, o.att = '', '', 0, 0
  return event, from
end

-- One step of a handoff, as a record of its own. `rest` is its data without `from`, which is settled here; '' for none.
local function step(o, now, name, by, from, rest)
  if rest ~= '' then append(o, now, 'handoff.' .. name, by, '{"from":"' .. from .. '",' .. rest:sub(2)) end
end

-- The owner changes, and each step of the handoff is recorded. Returns who owned before. The caller saves.
local function hand_over(o, now, kind, id, by, data, rest)
  local target = o.kind == 'queue' and 'human:' .. o.owner or o.owner -- as agent files name it
  step(o, now, 'requested', by, target, rest)
  step(o, now, 'accepted', by, target, rest)
  local _, from = change_owner(o, now, kind, id, by, data)
  step(o, now, 'completed', by, target, rest)
  return from
end

-- A person becomes the owner and is present for a while. Who takes what they have already is handed nothing.
local function change_to_person(o, now, person, fence, presence_ms, data, rest)
  local me_again = me(o) == 'human:' .. person
  local from = hand_over(o, now, 'human', person, 'human:' .. person, data, me_again and '' or rest)
  o.fence, o.presence, o.lease = fence, math.min(tonumber(presence_ms), MAX_LEASE), lease_end(now, presence_ms)
  save(o)
  redis.call('HSET', OWN, 'before', from) -- what the same call again is answered with
  schedule(o, now)
  redis.call('PUBLISH', REVOKED, CID)
  return {'OK', o.epoch, from, int(o.seq)}
end

-- A pending offer ends without a change of owner. `idem` keeps how, for those who answer it too late, and `who` said
-- it, so that the same call again gets the same answer. The caller saves.
local function end_offer(o, now, idem, state, by, data, ttl_s, who)
  append(o, now, 'offer.' .. state, by, data)
  redis.call('DEL', XFER)
  redis.call('SET', idem, cjson.encode({state, by, who, int(o.seq)}), 'EX', ttl_s)
  o.offer, o.offer_by = '', 0
end

local function ended_by(outcome, state, who) return outcome and outcome[1] == state and outcome[3] == who end

-- Why an offer that was made earlier cannot be answered any more; nil when it still can.
local function offer_gone(o, outcome, id)
  if not outcome then return {'GONE', 'unknown', ''} end
  if outcome[1] ~= 'pending' then return {'GONE', outcome[1], outcome[2]} end
  if o.offer ~= id then return {'GONE', 'void', me(o)} end
end

local function decoded(key)
  local text = redis.call('GET', key)
  return text and cjson.decode(text)
end

-- Does an approval belong to the owner of this moment, since it became the owner?
local function bound(o, agent, tenure) return o.kind == 'ai' and o.owner == agent and o.tenure == tenure end

-- A question that nobody has asked under this id before; `run` ends with it (nil: it goes on). The caller saves, and schedules.
local function ask(o, now, key, run, id, hash, valid_ms, default, call, data)
  local deadline = int(now + tonumber(valid_ms))
  redis.call('HSET', key, 'id', id, 'state', 'asked', 'agent', o.owner, 'epoch', o.tenure, 'hash', hash,
             'deadline', deadline, 'default', default, 'call', call,
             'verdict', '', 'by', '', 'note', '', 'at', '0', 'use', '')
  redis.call('HSET', OWN, 'key:ap:' .. id, '1')
  append(o, now, 'approval.asked', me(o), data, nil, nil, run)
  o.asks = without(o.asks, id) .. id .. '=' .. deadline .. ' '
end

-- Keeps what a resting turn needs to go on, or forgets it ('-').
local function keep_rest(key, needs)
  if needs == '' then return end
  if needs == '-' then
    redis.call('DEL', key)
  else
    redis.call('SET', key, needs)
    redis.call('HSET', OWN, 'key:rest', '1')
  end
end

-- All that a worker needs to run the turn, in one reply. The history comes along if the caller guessed the owner.
local function grant(o, hist, hint, max_in, hist_tail, log_tail)
  local history = false
  if hint == o.owner then history = redis.call('LRANGE', hist, -tonumber(hist_tail), -1) end
  return {redis.call('HGETALL', OWN), redis.call('LRANGE', IN, 0, tonumber(max_in) - 1), redis.call('HGETALL', VARS),
          history or '', redis.call('XREVRANGE', LOG, '+', '-', 'COUNT', log_tail), redis.call('HGETALL', TJ)}
end

-- Reads counted groups out of ARGV: a count, then count * width values. Returns them and where the next group starts.
local function group(i, width)
  local n = tonumber(ARGV[i])
  local rows = {}
  for k = 0, n - 1 do
    local row = {}
    for w = 1, width do row[w] = ARGV[i + k * width + w] end
    rows[k + 1] = row
  end
  return rows, i + n * width + 1
end

-- The first value whose revision is not what the writer read; nil when all of them are.
local function stale_value(writes)
  for _, w in ipairs(writes) do
    if w[3] ~= '' then
      local rev = redis.call('HGET', VARS, 'rev:' .. w[1]) or '0'
      if rev ~= w[3] then return w[1], rev end
    end
  end
end

local function write_values(writes)
  for _, w in ipairs(writes) do
    redis.call('HSET', VARS, 'val:' .. w[1], w[2])
    redis.call('HINCRBY', VARS, 'rev:' .. w[1], 1)
  end
end

-- Drops `drop` items from the end of a history (-1: all), then adds the new ones.
local function write_history(hist, drop, items)
  if drop < 0 then redis.call('DEL', hist) else for _ = 1, drop do redis.call('RPOP', hist) end end
  for _, item in ipairs(items) do redis.call('RPUSH', hist, item[1]) end
end

-- Keeps a record (of a run, or of one part of it) in a list of the conversation: the newest `keep` of them.
local function keep_record(key, record, keep)
  if record == '' then return end
  if redis.call('RPUSH', key, record) == 1 then redis.call('HSET', OWN, 'key:runs', '1') end
  redis.call('LTRIM', key, -tonumber(keep), -1)
end

-- What the holder's answer settles: messages leave the inbox, and calls that are history now leave the journal.
-- A person who answers nothing leaves it alone: an agent may still go on with the message that the calls were made for.
local function settle_work(o, answered)
  if answered > 0 then redis.call('LTRIM', IN, answered, -1) end
  if o.kind == 'ai' or answered > 0 then redis.call('DEL', TJ) end
end

-- Keeps the newest `keep` events, and all that a registered sink has not read yet. seq is gapless, so a length says it.
local function trim_log(o, keep)
  if o.seq <= keep then return end
  local fields = redis.call('HGETALL', OWN)
  for i = 1, #fields, 2 do
    if fields[i]:sub(1, 8) == 'key:cur:' then keep = math.max(keep, o.seq - tonumber(fields[i + 1])) end
  end
  redis.call('XTRIM', LOG, 'MAXLEN', '=', int(keep))
end

-- Is a key of this conversation missing in `names` (its names without the common part)? close and forget must have all.
local function incomplete(names)
  local given = {}
  for _, row in ipairs(names) do given[row[1]] = true end
  for _, f in ipairs(redis.call('HKEYS', OWN)) do
    if f:sub(1, 5) == 'seen:' and not given['h:' .. f:sub(6)] then return true end
    if f:sub(1, 4) == 'key:' and not given[f:sub(5)] then return true end
  end
  return false
end
