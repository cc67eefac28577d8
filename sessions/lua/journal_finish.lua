-- The tool has run: its result stands for this call until the commit makes it history.
-- ARGV 3 epoch, 4 fence, 5 call key, 6 result
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
local entry = redis.call('HGET', TJ, ARGV[5])
if not entry then return {'CONFLICT', 'journal', 'not begun'} end
if entry:sub(1, 1) == 'D' then return {'DUP', entry:sub(2)} end
if entry ~= 'B' .. o.epoch then return {'CONFLICT', 'journal', 'begun by another attempt'} end
redis.call('HSET', TJ, ARGV[5], 'D' .. ARGV[6])
return {'OK', ARGV[6]}
