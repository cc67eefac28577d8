-- An agent asks whether it may make one call. The approval is bound to this agent since it became the owner.
-- KEYS 10 approval | ARGV 3 epoch, 4 fence, 5 id, 6 hash of the arguments, 7 valid ms, 8 default (granted|refused),
--      9 call, 10 data of approval.asked, 11 rebind (0|1)
local AP = KEYS[10]
local o = load_own()
local hash = redis.call('HGET', AP, 'hash')
if hash and hash ~= ARGV[6] then return {'REUSED'} end
if hash and ARGV[11] ~= '1' then return {'DUP', redis.call('HGETALL', AP), o and o.tenure or ''} end
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
if o.kind ~= 'ai' then return {'NOTAI', me(o)} end
-- writes from here on
local now = now_ms()
if hash then
  redis.call('HSET', AP, 'agent', o.owner, 'epoch', o.tenure)
  local a = redis.call('HMGET', AP, 'state', 'deadline')
  if a[1] == 'asked' then o.asks = without(o.asks, ARGV[5]) .. ARGV[5] .. '=' .. a[2] .. ' ' end
else
  ask(o, now, AP, nil, ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10])
end
save(o)
schedule(o, now)
return {'OK', redis.call('HGETALL', AP), o.tenure}
