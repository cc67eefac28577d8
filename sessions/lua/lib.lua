-- Shared by every script; prepended to each of them by sessions/scripts.py.
-- KEYS 1-7 and ARGV 1-2 are the same everywhere.
local OWN, IN, VARS, LOG, DUE, IDX, DRAFT = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local CID, CHANNEL = ARGV[1], ARGV[2]
local READY, REVOKED = 'fd:ready', 'fd:revoked' -- sessions/keys.py has the same names

local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function int(n) return string.format('%d', n) end

-- The owner record as a table of strings; nil when there is no conversation.
local function load_own()
  local o = redis.call('HMGET', OWN, 'st', 'kind', 'owner', 'epoch', 'fence', 'wid', 'lease', 'att', 'seq', 'draft')
  if not o[1] then return nil end
  return {st = o[1], kind = o[2], owner = o[3], epoch = o[4], fence = o[5], wid = o[6], lease = tonumber(o[7]),
          att = tonumber(o[8]), seq = tonumber(o[9]), draft = o[10] or ''}
end

local function holds(o, epoch, fence) return o ~= nil and fence ~= '' and o.epoch == epoch and o.fence == fence end

local function fenced(o)
  if not o then return {'NOCONV'} end
  return {'FENCED', o.kind .. ':' .. o.owner, o.epoch}
end

-- Appends one event to the log and tells the readers. The caller has set o.epoch; o.seq is moved on here, in the table only.
local function append(o, at, type, by, data, from, to)
  local seq = o.seq + 1
  local id = o.epoch .. '-' .. int(seq)
  redis.call('XADD', LOG, id, 't', type, 'at', int(at), 'by', by, 'd', data, 'f', from or '', 'o', to or '')
  redis.call('PUBLISH', CHANNEL, cjson.encode({'E', int(seq), o.epoch, type, int(at), by, data, from or '', to or ''}))
  o.seq = seq
  return id
end

-- A streamed draft that will never become a message is taken back in front of everybody.
local function retract_draft(o, at)
  if o.draft == '' then return end
  append(o, at, 'msg.retracted', 'system', '{"id":"' .. o.draft .. '"}')
  redis.call('DEL', DRAFT)
  redis.call('HSET', OWN, 'draft', '', 'seq', int(o.seq))
  o.draft = ''
end

-- When must a worker look at this conversation? Now if work waits, when the lease ends if somebody works, else never.
local function schedule(o, now)
  if o.kind == 'ai' and o.st == 'open' and redis.call('LLEN', IN) > 0 then
    redis.call('ZADD', DUE, int(math.max(o.lease, now)), CID)
  else
    redis.call('ZREM', DUE, CID)
  end
  redis.call('ZADD', IDX, int(now), CID)
end

-- Gives the turn to a worker: the epoch rises, so whoever worked before is fenced from here on.
local function take_lease(o, now, wid, fence, lease_ms)
  if o.fence ~= '' then redis.call('PUBLISH', REVOKED, CID) end
  o.epoch = int(math.max(tonumber(o.epoch) + 1, now))
  o.fence, o.wid, o.att, o.lease = fence, wid, o.att + 1, now + tonumber(lease_ms)
  redis.call('HSET', OWN, 'epoch', o.epoch, 'fence', fence, 'wid', wid, 'att', int(o.att), 'lease', int(o.lease))
  retract_draft(o, now)
end

-- All that a worker needs to run the turn, in one reply. The history is given only if the caller guessed the owner right.
local function grant(o, hist, hint, max_in, hist_tail, log_tail)
  local history = false
  if hint == o.owner then history = redis.call('LRANGE', hist, -tonumber(hist_tail), -1) end
  return {redis.call('HGETALL', OWN), redis.call('LRANGE', IN, 0, tonumber(max_in) - 1), redis.call('HGETALL', VARS),
          history or '', redis.call('XREVRANGE', LOG, '+', '-', 'COUNT', log_tail)}
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
