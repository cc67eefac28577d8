-- A person takes the conversation at once, whoever works on it; what was being streamed is taken back.
-- ARGV 3 person, 4 new fence, 5 presence ms, 6 expected epoch ('' = any), 7 force (0|1), 8 data of owner.changed,
--      9 data of the handoff's records without `from` ('' = none)
local o = load_own()
if not o then return {'NOCONV'} end
if o.st ~= 'open' then return {'CLOSED', o.st} end
if o.fence == ARGV[4] then return {'OK', o.epoch, redis.call('HGET', OWN, 'before') or me(o), int(o.seq)} end -- again
if ARGV[6] ~= '' and ARGV[6] ~= o.epoch then return {'CONFLICT', 'epoch', o.epoch} end
local now = now_ms()
local busy = o.kind == 'human' and o.owner ~= ARGV[3] and live(o, now)
if busy and ARGV[7] ~= '1' then return {'BUSY', me(o), o.epoch} end
-- writes from here on
return change_to_person(o, now, ARGV[3], ARGV[4], ARGV[5], ARGV[8], ARGV[9])
