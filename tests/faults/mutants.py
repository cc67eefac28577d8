"""Mutants of the Lua: each one breaks a rule that the design needs. A test suite that lets one live does not test it.

`old` is replaced by `new` in one script (`lib`: in the part that all share). `rules` are the calls of the state machine
that can show the difference, beside a customer who writes and a worker who claims.

Longer than 500 lines because it is a table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.resources import files

from sessions.scripts import SCRIPTS, source
from sessions.store import Store
from tests.sessions import test_attend as attend
from tests.sessions import test_lifecycle as lifecycle
from tests.sessions import test_positions as positions
from tests.sessions import test_runs as runs

ALWAYS = ("customer_writes", "worker_claims")
DONE = ("owner_commits",)
MOVE = ("owner_transfers",)
TAKE = ("person_takes_over",)
LATE = ("lease_ends",)
SWEEP = ("sweep_attends",)
OFFER = ("owner_offers", "person_accepts")
ASK = ("agent_asks", "person_decides", "agent_uses")
REST = ("owner_rests",)
TOOL = ("tool_begins", "tool_finishes")


@dataclass(frozen=True)
class Mutant:
    """One broken rule. `why` says what would go wrong in the product."""

    why: str
    script: str
    old: str
    new: str
    rules: tuple[str, ...]
    quick: bool = False  # part of the short run

    @property
    def name(self) -> str:
        return f"{self.script}: {self.why}"

    def sources(self) -> dict[str, str]:
        """The texts of the scripts that this mutant changes; ValueError when the place is not there exactly once."""
        text = (files("sessions") / "lua" / f"{self.script}.lua").read_text("utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.script}.lua has {self.old!r} in {text.count(self.old)} places")
        broken = text.replace(self.old, self.new)
        names = SCRIPTS if self.script == "lib" else (self.script,)
        return {name: source(name).replace(text, broken) for name in names}


HOLDS = "if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end"
OPEN = "if not o then return fenced(o) end"
PREV = "if prev then return {'DUP', prev} end"


def _m(script: str, why: str, old: str, new: str, *rules: str, quick: bool = False) -> Mutant:
    return Mutant(why, script, old, new, (*ALWAYS, *rules), quick)


MUTANTS: tuple[Mutant, ...] = (
    # -- the token -------------------------------------------------------------------------------------------------
    _m("lib", "the epoch of a token is not compared", "and o.epoch == epoch and", "and", *DONE, quick=True),
    _m("lib", "the nonce of a token is not compared", " and o.fence == fence end", " end", *DONE, quick=True),
    _m(
        "lib", "the empty nonce of a free turn is a token", "o ~= nil and fence ~= '' and", "o ~= nil and", *DONE, *MOVE
    ),
    _m(
        "lib",
        "the epoch does not rise",
        "int(math.max(tonumber(o.epoch) + 1, now))",
        "o.epoch",
        *DONE,
        *MOVE,
        *TAKE,
        quick=True,
    ),
    _m(
        "lib",
        "the epoch follows a clock that is set back",
        "int(math.max(tonumber(o.epoch) + 1, now))",
        "int(now)",
        *DONE,
        *TAKE,
        "clock_is_set_back",
        "owner_releases",
    ),
    _m(
        "lib",
        "the epoch is a counter, which a failover gives out again",
        "int(math.max(tonumber(o.epoch) + 1, now))",
        "int(tonumber(o.epoch) + 1)",
        *DONE,
        quick=True,
    ),
    _m("lib", "a claim keeps the old epoch", "o.epoch = next_epoch(o, now)\n  o.fence, o.wid", "o.fence, o.wid", *DONE),
    # -- leases ----------------------------------------------------------------------------------------------------
    _m(
        "lib",
        "a live lease is ignored: safe by the token, but each turn would run in every process",
        "return o.lease > now and o.lease <= now + MAX_LEASE end",
        "return false end",
        quick=True,
    ),
    _m(
        "lib",
        "a lease from before the clock was set back never ends",
        " and o.lease <= now + MAX_LEASE end",
        " end",
        *LATE,
        quick=True,
    ),
    _m("claim", "a live lease is ignored", "if live(o, now) then return", "if false then return", quick=True),
    _m("claim", "an agent gets a turn while people own", "if o.kind ~= 'ai' then", "if false then", *TAKE, *LATE),
    _m("claim", "the same claim again is refused", "if o.fence ~= ARGV[4] then", "if true then", *LATE),
    _m("claim", "a turn is given although nothing waits", "if not has_work(o) then", "if false then", *DONE),
    _m("lib", "attempts are not counted", "fence, wid, o.att + 1,", "fence, wid, o.att,", *LATE, *SWEEP),
    _m(
        "lib",
        "what a dead worker streamed stays on the screen",
        "o.woken .. o.wake\n  retract_draft(o, now)",
        "o.woken .. o.wake",
        "owner_streams",
        *LATE,
    ),
    _m(
        "lib",
        "a crash loses the decision that woke the turn",
        "'', o.woken .. o.wake",
        "'', o.wake",
        *ASK,
        *LATE,
    ),
    # -- a change of owner -----------------------------------------------------------------------------------------
    _m(
        "lib",
        "a change of owner leaves the offer's record",
        "if o.offer ~= '' then redis.call('DEL', XFER) end",
        "",
        *OFFER,
        *TAKE,
    ),
    _m(
        "lib",
        "a change of owner leaves the offer pending",
        "o.offer, o.offer_by, o.asks, o.wake, o.woken = '', 0, '', '', ''\n  local event",
        "o.asks, o.wake, o.woken = '', '', ''\n  local event",
        *OFFER,
        *TAKE,
        quick=True,
    ),
    _m(
        "lib",
        "approvals outlive the owner who asked",
        "o.kind, o.owner, o.tenure = kind, id, o.epoch",
        "o.kind, o.owner = kind, id",
        *ASK,
        *TAKE,
        *MOVE,
    ),
    _m(
        "lib",
        "the old owner's attempts count against the new one",
        "o.fence, o.wid, o.lease, o.att = '', '', 0, 0",
        "o.fence, o.wid, o.lease = '', '', 0",
        *MOVE,
    ),
    _m(
        "lib",
        "the old owner keeps its token when nobody goes on",
        "o.fence, o.wid, o.lease, o.att = '', '', 0, 0",
        "o.att = 0",
        *MOVE,
        quick=True,
    ),
    _m(
        "lib",
        "a takeover leaves the agent's draft on the screen",
        "o.epoch = next_epoch(o, now)\n  retract_draft(o, now)\n  if o.offer",
        "o.epoch = next_epoch(o, now)\n  if o.offer",
        "owner_streams",
        *TAKE,
        quick=True,
    ),
    # -- the schedule ----------------------------------------------------------------------------------------------
    _m(
        "lib",
        "nobody looks at waiting messages",
        "(o.kind == 'ai' and has_work(o))",
        "false",
        quick=True,
    ),
    _m("lib", "nobody notices that a person is gone", "(o.kind == 'human' and not left)", "false", *TAKE),
    _m("lib", "nobody ends an offer", "if o.offer ~= '' then no_later(o.offer_by) end", "", *DONE, *OFFER, quick=True),
    _m("lib", "nobody applies an approval's default", "if ask then no_later(ask) end", "", *DONE, *ASK),
    # -- the shared writes -----------------------------------------------------------------------------------------
    _m("lib", "values are not compared before they are set", "if rev ~= w[3] then", "if false then", *DONE, quick=True),
    _m("lib", "a value's revision does not rise", "'rev:' .. w[1], 1)", "'rev:' .. w[1], 0)", *DONE),
    _m(
        "lib",
        "answered messages stay and are answered again",
        "LTRIM', IN, answered",
        "LTRIM', IN, 0",
        *DONE,
        quick=True,
    ),
    _m("lib", "messages that came meanwhile are lost", "'LTRIM', IN, answered, -1)", "'DEL', IN)", *DONE, quick=True),
    _m("lib", "the journal outlives its turn", "then redis.call('DEL', TJ) end", "then end", *TOOL, *DONE),
    _m(
        "lib",
        "a person who says nothing clears the journal, and a refund runs twice after the hand back",
        "if o.kind == 'ai' or answered > 0 then",
        "if true then",
        *TOOL,
        *DONE,
        *TAKE,
        *MOVE,
    ),
    _m("lib", "an agent cannot take items back", "redis.call('RPOP', hist)", "redis.call('LLEN', hist)", *DONE),
    # -- customers -------------------------------------------------------------------------------------------------
    _m("enqueue", "a repeated message is stored twice", "if first then", "if false then", quick=True),
    _m("enqueue", "another text under a used id is swallowed", "if first[2] ~= ARGV[4] then", "if false then"),
    _m("enqueue", "a repetition gives somebody else's turn away", "and o.fence == ARGV[11]", "", quick=True),
    _m(
        "enqueue",
        "a closed conversation goes on",
        "if o and o.st ~= 'open' then",
        "if false then",
        "person_closes",
        *DONE,
    ),
    _m("enqueue", "a message interrupts a running turn", "o.kind == 'ai' and not live(o, now)", "o.kind == 'ai'"),
    _m(
        "enqueue",
        "a message to a person starts a turn",
        "o.kind == 'ai' and not live(o, now)",
        "not live(o, now)",
        *TAKE,
        *LATE,
    ),
    # -- commit ----------------------------------------------------------------------------------------------------
    _m("commit", "no fence", HOLDS, OPEN, *DONE, *LATE, quick=True),
    _m("commit", "a repeated commit is stored twice", PREV, "", *DONE, quick=True),
    _m("commit", "more is answered than waits", "if waits < answered then", "if false then", *DONE),
    _m(
        "commit",
        "a refused commit has already written",
        "local key, rev = stale_value(writes)",
        "write_history(hist, 0, items)\nlocal key, rev = stale_value(writes)",
        *DONE,
        quick=True,
    ),
    _m("commit", "attempts are never forgiven", "o.att, o.woken = 0, ''", "o.woken = ''", *DONE),
    _m("commit", "a decision wakes turns for ever", "o.att, o.woken = 0, ''", "o.att = 0", *ASK, *DONE, *LATE),
    _m(
        "commit",
        "the turn is kept although nothing waits",
        "  o.fence, o.wid, o.lease = '', '', 0\n  if has_work",
        "  if has_work",
        *DONE,
    ),
    _m("commit", "a person who writes is not present", "if o.kind == 'human' then", "if false then", *TAKE, *DONE),
    # -- transfer --------------------------------------------------------------------------------------------------
    _m("transfer", "no fence", HOLDS, OPEN, *MOVE, *LATE, quick=True),
    _m("transfer", "a repeated transfer happens twice", PREV, "", *MOVE, quick=True),
    _m("transfer", "a seed may miss what came meanwhile", "if ARGV[15] ~= '' and", "if false and", *MOVE, quick=True),
    _m("transfer", "values are not compared", "if key then return", "if false then return", *MOVE),
    _m("transfer", "the seed goes to the old owner", "RPUSH', hist_to", "RPUSH', hist_from", *MOVE),
    _m("transfer", "the new owner does not get the turn", "o.fence, o.wid = ARGV[12], ARGV[13]", "", *MOVE),
    # -- people ----------------------------------------------------------------------------------------------------
    _m(
        "takeover",
        "a second person takes it silently",
        "if busy and ARGV[7] ~= '1' then",
        "if false then",
        *TAKE,
        quick=True,
    ),
    _m(
        "takeover",
        "a person takes what has just changed",
        "if ARGV[6] ~= '' and ARGV[6] ~= o.epoch then",
        "if false then",
        *TAKE,
    ),
    _m("takeover", "the same call again takes it twice", "if o.fence == ARGV[4] then", "if false then", *TAKE),
    _m(
        "takeover",
        "a closed conversation is taken",
        "if o.st ~= 'open' then",
        "if false then",
        *TAKE,
        *DONE,
        "person_closes",
    ),
    _m("renew", "no fence", HOLDS, OPEN, "owner_renews", *LATE, quick=True),
    _m("release", "no fence", HOLDS, OPEN, "owner_releases", *LATE, quick=True),
    _m("append", "no fence", HOLDS, OPEN, "owner_appends", *LATE),
    _m("append", "a repeated event is stored twice", PREV, "", "owner_appends"),
    _m("relay", "a stale owner's text reaches the screen", HOLDS, OPEN, "owner_streams", *TAKE, quick=True),
    # -- offers ----------------------------------------------------------------------------------------------------
    _m("offer", "no fence", HOLDS, OPEN, *OFFER),
    _m("offer", "two offers at once", "if o.offer ~= '' then", "if false then", *OFFER, quick=True),
    _m("offer", "a repeated offer is refused", "if first then", "if false then", *OFFER),
    _m("lib", "a void offer can be accepted", "if o.offer ~= id then", "if false then", *OFFER, *TAKE),
    _m(
        "accept",
        "an offer is accepted after its deadline",
        "if now >= o.offer_by then",
        "if false then",
        *OFFER,
        "offer_runs_out",
        quick=True,
    ),
    _m("accept", "somebody else accepts", "if to:sub(1, 6) == 'human:' and", "if false and", *OFFER),
    _m("accept", "the same call again is told that it came too late", "outcome[3] == ARGV[5]", "false", *OFFER),
    _m(
        "decline",
        "the same call again is told that it came too late",
        "if ended_by(",
        "if false and ended_by(",
        "owner_offers",
        "person_declines",
    ),
    _m(
        "cancel",
        "the same call again is told that it came too late",
        "if ended_by(",
        "if false and ended_by(",
        "owner_offers",
        "owner_cancels",
    ),
    _m("cancel", "no fence", HOLDS, OPEN, "owner_offers", "owner_cancels"),
    _m("expire", "a running turn is swept away", "and live(o, now) then", "and false then", *SWEEP, *TAKE, quick=True),
    _m(
        "expire",
        "a turn that never ends goes round for ever",
        "o.att >= tonumber(ARGV[3])",
        "false",
        *SWEEP,
        *LATE,
        quick=True,
    ),
    _m(
        "expire",
        "a person who is gone keeps the conversation",
        "if o.kind == 'human' then\n  why",
        "if false then\n  why",
        *SWEEP,
        *TAKE,
        *LATE,
    ),
    _m(
        "expire",
        "an offer ends before its time",
        "o.offer ~= '' and now >= o.offer_by",
        "o.offer ~= ''",
        *SWEEP,
        *OFFER,
    ),
    _m("expire", "an approval ends before its time", "if ask and now >= ask then", "if ask then", *SWEEP, *ASK),
    # -- approvals -------------------------------------------------------------------------------------------------
    _m("approval_ask", "an id stands for two calls", "if hash and hash ~= ARGV[6] then", "if false then", *ASK),
    _m("approval_ask", "no fence", HOLDS, OPEN, *ASK, *TAKE),
    _m(
        "commit",
        "a question is asked a second time",
        "if redis.call('EXISTS', KEYS[12 + n]) == 1 then",
        "if false then",
        *REST,
    ),
    _m("lib", "a resting turn runs again and again", "not held_back(o) and", "", *REST, quick=True),
    _m(
        "lib",
        "a turn rests for what is decided",
        "o.hold ~= '' and o.asks ~= ''",
        "o.hold ~= ''",
        *REST,
        *ASK,
        *LATE,
        *MOVE,
    ),
    _m("enqueue", "nobody looks at what comes while a turn rests", "o.hold = ''", "o.hold = o.hold", *REST),
    _m("commit", "who rests keeps the turn", "#waiting > 0 and not rests", "#waiting > 0", *REST, quick=True),
    _m("approval_decide", "the second decision counts", "if a[1] ~= 'asked' then", "if false then", *ASK, quick=True),
    _m(
        "approval_decide",
        "an approval is decided for an owner who is gone",
        "if not bound(o, a[2], a[3]) then",
        "if false then",
        *ASK,
        *TAKE,
    ),
    _m(
        "approval_decide",
        "a decision that is too late counts",
        "if late then verdict",
        "if false then verdict",
        *ASK,
        "approval_runs_out",
    ),
    _m("approval_consume", "no fence", HOLDS, OPEN, *ASK, *LATE),
    _m(
        "approval_consume",
        "an approval is used twice",
        "if a[1] == 'used' and a[5] ~= ARGV[7] then",
        "if false then",
        *ASK,
        quick=True,
    ),
    _m("approval_consume", "an approval is used for other arguments", "if a[4] ~= ARGV[6] then", "if false then", *ASK),
    _m(
        "approval_consume",
        "an approval of an earlier tenure is used",
        "if not bound(o, a[2], a[3]) then",
        "if false then",
        "agent_asks",
        "agent_uses",
        *MOVE,
    ),
    # -- the journal and values ------------------------------------------------------------------------------------
    _m("journal_begin", "a stale worker starts a tool", HOLDS, OPEN, *TOOL, *LATE, quick=True),
    _m(
        "journal_begin",
        "a finished call runs again",
        "if entry and entry:sub(1, 1) == 'D' then",
        "if false then",
        *TOOL,
        quick=True,
    ),
    _m(
        "journal_begin",
        "a call that may have happened runs again",
        "and ARGV[6] ~= '1' then",
        "and false then",
        *TOOL,
        *LATE,
    ),
    _m("journal_finish", "a stale worker's result counts", HOLDS, OPEN, *TOOL, *LATE),
    _m(
        "journal_finish", "a second result replaces the first", "if entry:sub(1, 1) == 'D' then", "if false then", *TOOL
    ),
    _m(
        "set_values",
        "values are set unseen",
        "if key then return",
        "if false then return",
        "person_sets_a_value",
        quick=True,
    ),
    _m("set_values", "a repeated call sets them twice", PREV, "", "person_sets_a_value"),
    _m(
        "close",
        "the owner goes on after the end",
        "o.st, o.fence, o.wid, o.lease = 'closed', '', '', 0",
        "o.st = 'closed'",
        "person_closes",
        *DONE,
    ),
)

# -- what the state machine does not do: its conversations are never trimmed, and gone when they end -------------------
Scenario = Callable[[Store, str], Awaitable[None]]


def _s(scenario: Scenario, script: str, why: str, old: str, new: str) -> tuple[Mutant, Scenario]:
    return Mutant(why, script, old, new, ()), scenario


KEYS_LOOP = "if key ~= DUE and key ~= IDX then"
SCENARIOS: tuple[tuple[Mutant, Scenario], ...] = (
    _s(
        positions.test_log_keeps_its_newest_events,
        "commit",
        "the log grows for ever",
        "trim_log(o, tonumber(ARGV[12]))",
        "",
    ),
    _s(
        positions.test_log_keeps_its_newest_events,
        "lib",
        "one event too many is trimmed",
        "'MAXLEN', '=', int(keep))",
        "'MAXLEN', '=', int(keep - 1))",
    ),
    _s(
        positions.test_log_keeps_what_a_sink_has_not_read,
        "lib",
        "what a sink has not read is trimmed",
        "if fields[i]:sub(1, 8) == 'key:cur:' then",
        "if false then",
    ),
    _s(
        positions.test_log_keeps_what_a_sink_has_not_read,
        "cursor",
        "a sink that is gone blocks trimming for ever",
        "redis.call('HDEL', OWN, field)",
        "",
    ),
    _s(
        positions.test_cursor_only_moves_forward,
        "cursor",
        "a cursor moves back",
        "if known and tonumber(known) >= seq then",
        "if false then",
    ),
    _s(
        positions.test_cursor_only_moves_forward,
        "cursor",
        "a cursor is ahead of the log",
        "if seq > o.seq then",
        "if false then",
    ),
    _s(
        positions.test_client_of_a_lost_history_is_told,
        "resume",
        "a client of a lost history goes on",
        "if seq > o.seq then state = 'ahead'",
        "if seq > o.seq then state = 'ok'",
    ),
    _s(
        positions.test_client_of_a_lost_history_is_told,
        "resume",
        "another event in the client's place passes",
        "else state = 'rolled_back' end",
        "else state = 'ok' end",
    ),
    _s(
        positions.test_log_keeps_its_newest_events,
        "resume",
        "a gap is passed off as whole",
        "state = 'trimmed'",
        "state = 'ok'",
    ),
    _s(
        positions.test_client_gets_what_it_missed,
        "resume",
        "the client's last event comes twice",
        "'(' .. at, '+'",
        "at, '+'",
    ),
    _s(
        lifecycle.test_closed_conversation_goes_away_together,
        "close",
        "keys of a closed conversation stay for ever",
        KEYS_LOOP,
        "if i < 9 and key ~= DUE and key ~= IDX then",
    ),
    _s(
        lifecycle.test_closed_conversation_goes_away_together,
        "cursor",
        "a late cursor stays for ever",
        "if left > 0 then",
        "if false then",
    ),
    _s(
        lifecycle.test_key_that_appears_while_closing_is_not_left_behind,
        "lib",
        "a key that appeared meanwhile is missed",
        "and not given['h:' .. f:sub(6)] then return true end",
        "and false then return true end",
    ),
    _s(
        lifecycle.test_closing_with_a_stale_view_is_refused,
        "close",
        "a stale owner closes",
        "if ARGV[4] ~= '' and not holds(o, ARGV[3], ARGV[4]) then",
        "if false then",
    ),
    _s(lifecycle.test_late_writes_do_not_bring_a_forgotten_customer_back, "forget", "no tombstone", "save(stone)", ""),
    _s(
        lifecycle.test_late_writes_do_not_bring_a_forgotten_customer_back,
        "set_values",
        "a value brings a forgotten customer back",
        "if o.st ~= 'open' then",
        "if false then",
    ),
    _s(
        lifecycle.test_forgotten_customer_leaves_nothing_but_a_tombstone,
        "forget",
        "the list still shows a forgotten customer",
        "redis.call('ZREM', IDX, CID)",
        "",
    ),
    _s(
        runs.test_only_the_newest_records_stay,
        "lib",
        "records of runs grow for ever",
        "redis.call('LTRIM', key, -tonumber(keep), -1)",
        "",
    ),
    _s(
        lifecycle.test_closed_conversation_goes_away_together,
        "lib",
        "records of runs stay after the conversation",
        "redis.call('HSET', OWN, 'key:runs', '1')",
        "",
    ),
    _s(
        runs.test_a_stale_owner_records_nothing,
        "commit",
        "a stale owner records its run",
        "local o = load_own()",
        "local o = load_own()\nredis.call('RPUSH', KEYS[#KEYS], '{}')",
    ),
    _s(
        runs.test_the_last_event_of_a_run_names_it,
        "commit",
        "a run ends while messages wait",
        "(rests or waits == answered) and",
        "",
    ),
    _s(
        runs.test_a_transfer_that_somebody_goes_on_with_ends_no_run,
        "transfer",
        "a run ends with each transfer",
        "ARGV[12] == '' and ARGV[i]",
        "ARGV[i]",
    ),
    _s(
        attend.test_person_without_presence_is_left_alone_and_not_looked_at_again,
        "expire",
        "the sweep spins on a person",
        "reschedule(o, now, true)",
        "reschedule(o, now)",
    ),
)
