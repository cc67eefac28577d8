-- A customer message is stored once; the conversation is made when it is new; the turn is claimed when asked and free.
-- KEYS 10 idem, 11 history of the hinted owner
-- ARGV 3 message id, 4 body hash, 5 data, 6 start kind, 7 start id, 8 meta, 9 idem ttl s,
--      10 wid ('' = do not claim), 11 fence, 12 lease ms, 13 hint, 14 max in, 15 history tail, 16 log tail
local idem, hist = KEYS[10], KEYS[11]
local o = load_own()
local now = now_ms()
local first = decoded(idem)
if first then
  if first[2] ~= ARGV[4] then return {'REUSED'} end
  local mine = o and ARGV[11] ~= '' and o.fence == ARGV[11]
  return {'DUP', first[1], o and o.kind or '', o and o.owner or '',
          mine and grant(o, hist, ARGV[13], ARGV[14], ARGV[15], ARGV[16]) or ''}
end
if o and o.st ~= 'open' then return {'CLOSED', o.st} end
-- writes from here on
if not o then
  o = new_own(ARGV[6], ARGV[7], now)
  redis.call('HSET', OWN, 'meta', ARGV[8], 'start', me(o), 'born', int(now))
end
local id = append(o, now, 'msg.created', 'customer', ARGV[5])
o.hold = '' -- whoever holds the others back must look at this one
redis.call('RPUSH', IN, int(o.seq) .. '|' .. ARGV[3] .. '|' .. ARGV[5])
redis.call('SET', idem, cjson.encode({id, ARGV[4]}), 'EX', ARGV[9])
local free = o.kind == 'ai' and not live(o, now)
local claimed = free and ARGV[10] ~= ''
if claimed then
  take_lease(o, now, ARGV[10], ARGV[11], ARGV[12])
elseif free then
  ready(o)
end
save(o)
schedule(o, now)
return {'OK', id, o.kind, o.owner, claimed and grant(o, hist, ARGV[13], ARGV[14], ARGV[15], ARGV[16]) or ''}
