-- A tool with side effects is about to run. Its result is given instead if it ran already.
-- The fence comes first: a stale worker must not start anything, even if it asked before.
-- ARGV 3 epoch, 4 fence, 5 call key, 6 again (0|1): run a call that an earlier attempt began and never finished
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local entry = redis.call('HGET', TJ, ARGV[5])
if entry and entry:sub(1, 1) == 'D' then return {'DONE', entry:sub(2)} end
if entry and entry ~= 'B' .. o.epoch and ARGV[6] ~= '1' then return {'UNFINISHED', entry:sub(2)} end
redis.call('HSET', TJ, ARGV[5], 'B' .. o.epoch)
return {'OK'}
