-- A customer message is stored once; the conversation is made when it is new; the turn is claimed when asked and free.
-- KEYS 8 idem, 9 history of the hinted owner
-- ARGV 3 message id, 4 body hash, 5 data, 6 start kind, 7 start id, 8 meta, 9 idem ttl s,
--      10 wid ('' = do not claim), 11 fence, 12 lease ms, 13 hint, 14 max in, 15 history tail, 16 log tail
local idem, hist = KEYS[8], KEYS[9]
local o = load_own()
local now = now_ms()
local prev = redis.call('GET', idem)
if prev then
  local first = cjson.decode(prev)
  if first[2] ~= ARGV[4] then return {'REUSED'} end
  local mine = o and ARGV[11] ~= '' and o.fence == ARGV[11]
  return {'DUP', first[1], o and o.kind or '', o and o.owner or '',
          mine and grant(o, hist, ARGV[13], ARGV[14], ARGV[15], ARGV[16]) or ''}
end
if o and o.st == 'closed' then return {'CLOSED'} end
if not o then
  o = {st = 'open', kind = ARGV[6], owner = ARGV[7], epoch = int(now), fence = '', wid = '', lease = 0, att = 0, seq = 0, draft = ''}
end
-- writes from here on
local born = o.seq == 0
local id = append(o, now, 'msg.created', 'customer', ARGV[5])
if born then
  redis.call('HSET', OWN, 'st', o.st, 'kind', o.kind, 'owner', o.owner, 'epoch', o.epoch, 'fence', '', 'wid', '', 'lease', '0',
             'att', '0', 'seq', '1', 'draft', '', 'meta', ARGV[8], 'start', o.kind .. ':' .. o.owner, 'born', int(now))
else
  redis.call('HSET', OWN, 'seq', int(o.seq))
end
redis.call('RPUSH', IN, int(o.seq) .. '|' .. ARGV[3] .. '|' .. ARGV[5])
redis.call('SET', idem, cjson.encode({id, ARGV[4]}), 'EX', ARGV[9])
local given = ''
if o.kind == 'ai' and o.lease <= now then
  if ARGV[10] ~= '' then
    take_lease(o, now, ARGV[10], ARGV[11], ARGV[12])
    given = grant(o, hist, ARGV[13], ARGV[14], ARGV[15], ARGV[16])
  else
    redis.call('PUBLISH', READY, CID)
  end
end
schedule(o, now)
return {'OK', id, o.kind, o.owner, given}
