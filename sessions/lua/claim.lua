-- A worker takes the turn of a conversation in which customer messages wait (or an approval was decided).
-- KEYS 10 history of the hinted owner | ARGV 3 wid, 4 fence, 5 lease ms, 6 hint, 7 max in, 8 history tail, 9 log tail
local o = load_own()
if not o then return {'NOCONV'} end
if o.st ~= 'open' then return {'CLOSED', o.st} end
if o.kind ~= 'ai' then return {'NOTAI', me(o)} end
local now = now_ms()
if o.fence ~= ARGV[4] then -- else: the same call again after a lost reply, the same grant
  if live(o, now) then return {'BUSY', o.wid, int(o.lease - now)} end
  if not has_work(o) then
    reschedule(o, now)
    return {'IDLE'}
  end
  take_lease(o, now, ARGV[3], ARGV[4], ARGV[5])
  save(o)
end
schedule(o, now)
return {'OK', grant(o, KEYS[10], ARGV[6], ARGV[7], ARGV[8], ARGV[9])}
