-- Somebody decides an approval, once: whoever comes later gets the first answer. Past its time the default counts.
-- KEYS 10 approval
-- ARGV 3 id, 4 verdict (granted|refused, '' = only if its time is over), 5 by, 6 note, 7 data of approval.decided,
--      8, 9 the same when it is granted or refused because its time is over
local AP = KEYS[10]
local a = redis.call('HMGET', AP, 'state', 'agent', 'epoch', 'deadline', 'default')
if not a[1] then return {'NOAPPROVAL'} end
local o = load_own()
if a[1] ~= 'asked' then return {'DUP', redis.call('HGETALL', AP), o and o.tenure or ''} end
if not o then return {'NOCONV'} end
if o.st ~= 'open' then return {'CLOSED', o.st} end
if not bound(o, a[2], a[3]) then return {'VOID', me(o)} end
local now = now_ms()
local late = now >= tonumber(a[4])
if ARGV[4] == '' and not late then return {'EARLY'} end
-- writes from here on
local verdict, by = ARGV[4], ARGV[5]
if late then verdict, by = a[5], 'system' end
redis.call('HSET', AP, 'state', verdict, 'verdict', verdict, 'by', by, 'note', late and '' or ARGV[6], 'at', int(now))
append(o, now, 'approval.decided', by, not late and ARGV[7] or verdict == 'granted' and ARGV[8] or ARGV[9])
o.asks = without(o.asks, ARGV[3])
o.wake = without(o.wake, ARGV[3]) .. ARGV[3] .. ' '
save(o)
schedule(o, now)
if not live(o, now) then ready(o) end
return {'OK', redis.call('HGETALL', AP), o.tenure}
