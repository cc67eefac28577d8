-- Shows a piece of what the owner is writing, only while it is the owner. It becomes history in commit, or never.
-- ARGV 3 epoch, 4 fence, 5 message id ('' = nothing to keep), 6 piece, 7 payload
local o = load_own()
if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end
if ARGV[5] ~= '' then
  if o.draft ~= ARGV[5] then
    retract_draft(o, now_ms())
    redis.call('HSET', OWN, 'draft', ARGV[5], 'seq', int(o.seq))
  end
  redis.call('APPEND', DRAFT, ARGV[6])
end
redis.call('PUBLISH', CHANNEL, ARGV[7])
return {'OK'}
