-- The agent that asked uses the approval for the call that it was given for. It can be used once.
-- The fence comes first here: a stale worker must not even learn that it may go on. Using does not use up the token.
-- KEYS 10 approval | ARGV 3 epoch, 4 fence, 5 id, 6 hash of the arguments, 7 id of the use, 8 data of approval.used
local AP = KEYS[10]
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local a = redis.call('HMGET', AP, 'state', 'agent', 'epoch', 'hash', 'use')
if not a[1] then return {'NOAPPROVAL'} end
if a[4] ~= ARGV[6] then return {'CONFLICT', 'arguments', a[4]} end
if not bound(o, a[2], a[3]) then return {'VOID', me(o)} end
if a[1] == 'used' and a[5] ~= ARGV[7] then return {'USED', a[5]} end
-- not decided yet, or this use again: nothing to write
if a[1] == 'asked' or a[1] == 'used' then return {'OK', redis.call('HGETALL', AP), o.tenure} end
-- writes from here on
local now = now_ms()
if a[1] == 'granted' then
  redis.call('HSET', AP, 'state', 'used', 'use', ARGV[7])
  append(o, now, 'approval.used', me(o), ARGV[8])
end
o.wake = without(o.wake, ARGV[5])
save(o)
schedule(o, now)
return {'OK', redis.call('HGETALL', AP), o.tenure}
