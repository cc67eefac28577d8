-- The conversation ends: nobody may write any more, and all its keys are deleted together after the retention time.
-- KEYS 10.. every other key
-- ARGV 3 epoch, 4 fence ('' = by authority), 5 expected epoch ('' = any), 6 retention s, 7 by,
--      8 data of status.changed, 9.. names of KEYS 10..
local o = load_own()
if not o then return {'NOCONV'} end
if o.st == 'closed' then return {'OK', int(o.seq), o.epoch} end -- the same call again
if o.st ~= 'open' then return {'CLOSED', o.st} end
if ARGV[4] ~= '' and not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
if ARGV[5] ~= '' and ARGV[5] ~= o.epoch then return {'CONFLICT', 'epoch', o.epoch} end
if incomplete(group(9, 1)) then return {'AGAIN'} end
-- writes from here on
local now = now_ms()
local by = ARGV[7] == '' and me(o) or ARGV[7]
o.epoch = next_epoch(o, now)
retract_draft(o, now)
append(o, now, 'status.changed', by, ARGV[8])
redis.call('DEL', XFER)
o.st, o.fence, o.wid, o.lease = 'closed', '', '', 0
o.offer, o.offer_by, o.asks, o.wake, o.woken = '', 0, '', '', ''
save(o)
schedule(o, now)
for i, key in ipairs(KEYS) do
  if key ~= DUE and key ~= IDX then redis.call('EXPIRE', key, ARGV[6]) end
end
redis.call('PUBLISH', REVOKED, CID)
return {'OK', int(o.seq), o.epoch}
