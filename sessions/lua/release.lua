-- A worker gives its turn back without an answer (drain), a person their presence; owner and waiting messages stay.
-- ARGV 3 epoch, 4 fence
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
-- writes from here on
local now = now_ms()
retract_draft(o, now)
o.fence, o.wid, o.lease = '', '', 0
save(o)
schedule(o, now)
if o.kind == 'ai' and has_work(o) then ready(o) end
return {'OK'}
