-- A worker gives its turn back without an answer (drain), a person their presence; owner and waiting messages stay.
-- KEYS 10 records of runs | ARGV 3 epoch, 4 fence, 5 record of the run ('' = none), 6 records kept
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
-- writes from here on
local now = now_ms()
retract_draft(o, now)
keep_record(KEYS[10], ARGV[5], ARGV[6])
o.fence, o.wid, o.lease = '', '', 0
save(o)
schedule(o, now)
if o.kind == 'ai' and has_work(o) then ready(o) end
return {'OK'}
