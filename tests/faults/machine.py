"""The state machine: random calls of the real store on a real server, each compared with the reference model.

Two workers, two people, three agents, one conversation per example. Time never passes by waiting: a rule makes a lease,
an offer or an approval late by editing its field. After each step everything that Redis holds is compared with the
model, and the invariants of the design are checked on the log itself, without the model.

Longer than 500 lines because Hypothesis wants all rules of a machine in one class.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RULE_MARKER, RuleBasedStateMachine, initialize, invariant, precondition, rule

from sessions import replies
from sessions.connect import Backend, connect
from sessions.errors import (
    ApprovalUsed,
    ApprovalVoid,
    CallUnfinished,
    Conflict,
    ConversationClosed,
    MessageIdReused,
    NotClaimable,
    NotOffered,
    OfferGone,
    OfferPending,
    OwnerBusy,
    StaleOwner,
    StoreError,
    UnknownApproval,
    UnknownConversation,
)
from sessions.keys import MAX_LEASE_MS, Keys, due_key
from sessions.model import Ephemeral, Event, NewEvent, Owner, Question, Token, ValueWrite, What
from sessions.scripts import Scripts
from sessions.store import Store, new_fence
from tests.faults.model import Entry, Model

T = TypeVar("T")
AGENTS = ("triage", "billing", "orders")
PEOPLE = ("ann", "bob")
HOUR_MS = 3_600_000
LEASE_MS = 300_000  # longer than DEADLINE_MS: the schedule must follow what ends first
DEADLINE_MS = 120_000
FAR_MS = 10 * MAX_LEASE_MS

which = st.sampled_from([0, 0, 0, 0, 1, 2])  # the newest token, mostly; older ones are stale
forged = st.sampled_from(["", "", "", "", "", "epoch", "fence", "empty"])
worker = st.sampled_from([0, 1])
person = st.sampled_from(PEOPLE)
amount = st.sampled_from([0, 0, 1, 1, 2])
stale_rev = st.sampled_from([None, None, 0, 0, 1])  # no value written, the right revision, a wrong one
ids = itertools.count(1)


@dataclass
class Bench:
    """A loop, a server and a set of scripts (the shipped ones, or a mutant)."""

    runner: asyncio.Runner
    backend: Backend
    scripts: Scripts

    def run(self, work: Awaitable[T]) -> T:
        """Await in the bench's loop (`Runner.run` would set up signal handlers for each call)."""
        return self.runner.get_loop().run_until_complete(work)


@dataclass(frozen=True)
class Seen:
    """Everything that Redis holds of the conversation."""

    now: int
    own: dict[str, str]
    log: tuple[Event, ...]
    inbox: list[str]
    values: dict[str, str]
    offer: dict[str, str]
    journal: dict[str, str]
    draft: str
    histories: dict[str, list[str]]
    due: float | None


def word(error: StoreError) -> str:
    """The model's word for a refusal."""
    match error:
        case StaleOwner():
            return "stale"
        case Conflict():
            return f"conflict {error.field}"
        case ConversationClosed():
            return "closed"
        case UnknownConversation():
            return "unknown"
        case NotClaimable():
            return error.why
        case OwnerBusy():
            return "busy"
        case OfferPending():
            return "pending"
        case OfferGone():
            return f"gone {error.state}"
        case NotOffered():
            return "not_offered"
        case UnknownApproval():
            return "no_approval"
        case ApprovalVoid():
            return "void"
        case ApprovalUsed():
            return "used"
        case CallUnfinished():
            return "unfinished"
        case MessageIdReused():
            return "reused"
    raise error


class Conversation(RuleBasedStateMachine):
    """One conversation. `bench` is set on a subclass by `machine_for`."""

    bench: ClassVar[Bench]

    def __init__(self) -> None:
        super().__init__()
        self.cid = f"c_{next(ids)}"
        self.keys = Keys.of(self.cid)
        backend, scripts = self.bench.backend, self.bench.scripts
        self.stores = [Store(backend, worker=f"w{n}", lease_ms=LEASE_MS, scripts=scripts) for n in (1, 2)]
        self.store = self.stores[0]
        self.redis: Any = backend.cmd
        self.model = Model()
        self.tokens: list[Token] = []
        self.epoch = 0
        self.tenure = 0
        self.time = 0

    # -- helpers ---------------------------------------------------------------------------------------------------

    def call(self, work: Awaitable[T]) -> tuple[str, T | None]:
        """The outcome in the model's words (`ok` when the call was accepted), and the answer."""
        try:
            return "ok", self.bench.run(work)
        except StoreError as error:
            return word(error), None

    def token(self, which_: int, forged_: str) -> Token:
        """A token: the newest, an older one, or one that a rolled back server or a liar could hold."""
        if not self.tokens:
            return Token(1, "0" * 32)
        if forged_ == "empty":
            return Token(self.epoch, "")
        token = self.tokens[-1 - which_ % len(self.tokens)]
        if forged_ and self.model.holder:
            holder = self.model.holder
            return Token(holder.epoch, "f" * 32) if forged_ == "fence" else Token(holder.epoch + 1, holder.fence)
        return token

    def got(self, token: Token) -> None:
        self.model.holder = token
        self.tokens.append(token)

    def rev(self, choice: int | None, key: str = "v") -> int | None:
        return None if choice is None else self.model.values.get(key, 0) + choice

    def write(self, rev: int | None, key: str = "v") -> list[ValueWrite]:
        return [] if rev is None else [ValueWrite(key, rev + 1, rev)]

    # -- customers and workers -------------------------------------------------------------------------------------

    @initialize(begins=st.sampled_from(["claimed", "claimed", "claimed", "waiting", "not"]))
    def conversation_begins(self, begins: str) -> None:
        """Mostly there is one; what is asked of one that is not is tried as well."""
        if begins != "not":
            self.write_message(begins == "claimed", again=False, by=0)

    @rule(claim=st.sampled_from([True, True, False]), again=st.booleans(), by=worker)
    def customer_writes(self, claim: bool, again: bool, by: int) -> None:
        self.write_message(claim, again, by)

    def write_message(self, claim: bool, again: bool, by: int) -> None:
        mid = f"m{next(ids)}"
        store = self.stores[by]

        async def enqueue(text: str = "hi") -> Any:
            return await store.enqueue(self.cid, mid, {"text": text}, start=Owner.ai("triage"), claim=claim)

        outcome, receipt = self.call(enqueue())
        expected, claimed = self.model.enqueue(mid, claim=claim)
        assert outcome == expected
        if receipt is None:
            return
        assert (receipt.grant is not None) == claimed
        if receipt.grant:
            self.got(receipt.grant.token)
            self.check_grant(receipt.grant)
        if again:  # the same message again, by the client or by our own repetition
            outcome, second = self.call(enqueue())
            assert outcome == "ok" and second is not None
            assert (second.duplicate, second.event_id, second.grant) == (True, receipt.event_id, None)
            assert self.call(enqueue("another text"))[0] == "reused"

    @rule(by=worker, again=st.booleans())
    def worker_claims(self, by: int, again: bool) -> None:
        fence = new_fence()
        hint = self.model.owner[1]
        outcome, grant = self.call(self.stores[by].claim(self.cid, hint=hint, fence=fence))
        assert outcome == self.model.claim()
        if grant is None:
            return
        self.got(grant.token)
        self.check_grant(grant)
        if again:
            outcome, second = self.call(self.stores[by].claim(self.cid, hint=hint, fence=fence))
            assert second is not None and second.token == grant.token

    def check_grant(self, grant: Any) -> None:
        assert [message.message_id for message in grant.pending] == self.model.inbox
        assert set(grant.conversation.woken) == self.model.wake | self.model.woken
        assert grant.conversation.attempts == self.model.attempts
        assert dict(grant.journal) == {call: text for call, (text, _) in self.model.journal.items() if text}

    @rule(
        t=which,
        f=forged,
        answered=amount,
        choice=stale_rev,
        says=st.booleans(),
        drop=st.sampled_from([0, 0, 0, 1, -1]),
        again=st.booleans(),
    )
    def owner_commits(
        self, t: int, f: str, answered: int, choice: int | None, says: bool, drop: int, again: bool
    ) -> None:
        token, rev = self.token(t, f), self.rev(choice)
        agent = self.model.owner[1] if self.model.kind == "ai" else ""
        item = f"i{next(ids)}" if agent else ""
        request = f"r{next(ids)}"

        async def commit() -> Any:
            return await self.store.commit(
                self.cid,
                token,
                request,
                answered=answered,
                events=[NewEvent("msg.created", {"text": "answer"})] if says else [],
                agent_id=agent,
                items=[{"n": item}] if item else [],
                drop=drop if agent else 0,
                values=self.write(rev),
            )

        outcome, done = self.call(commit())
        expected = self.model.commit(token, answered=answered, says=says, item=item, agent=agent, drop=drop, rev=rev)
        assert outcome == expected
        if done is None:
            return
        assert [message.message_id for message in done.pending] == self.model.inbox
        if again:
            self.same(commit(), done)

    def same(self, repeated: Awaitable[Any], first: Any) -> None:
        outcome, second = self.call(repeated)
        assert outcome == "ok" and second is not None and second.duplicate
        assert (second.seq, second.event_ids) == (first.seq, first.event_ids)

    @rule(
        t=which,
        f=forged,
        to=st.sampled_from(["ai:triage", "ai:billing", "ai:orders", "queue:support", "human:ann"]),
        go_on=st.booleans(),
        answered=st.sampled_from([0, 0, 1]),
        moved_on=st.sampled_from([None, None, 0, 1]),
        choice=stale_rev,
        again=st.booleans(),
    )
    def owner_transfers(
        self,
        t: int,
        f: str,
        to: str,
        go_on: bool,
        answered: int,
        moved_on: int | None,
        choice: int | None,
        again: bool,
    ) -> None:
        token, rev = self.token(t, f), self.rev(choice)
        owner = Owner.parse(to)
        agent = self.model.owner[1] if self.model.kind == "ai" else ""
        item, seed, request = f"i{next(ids)}" if agent else "", f"s{next(ids)}", f"r{next(ids)}"
        seq = None if moved_on is None else len(self.model.log) - moved_on

        async def transfer() -> Any:
            return await self.store.transfer(
                self.cid,
                token,
                request,
                to=owner,
                change={},
                answered=answered,
                before=[NewEvent("handoff.requested", {})],
                after=[NewEvent("handoff.completed", {})],
                agent_id=agent,
                items=[{"n": item}] if item else [],
                seed=[{"n": seed}] if owner.kind == "ai" else [],
                values=self.write(rev),
                go_on=go_on and owner.kind == "ai",
                expected_seq=seq,
            )

        outcome, done = self.call(transfer())
        expected = self.model.transfer(
            token,
            (owner.kind.value, owner.id),
            answered=answered,
            item=item,
            agent=agent,
            seed=seed,
            expected_seq=seq,
            rev=rev,
        )
        assert outcome == expected
        if done is None:
            return
        if go_on and owner.kind == "ai":
            self.got(done.token)
            self.model.live = True
        if again:
            self.same(transfer(), done)

    @rule(t=which, f=forged)
    def owner_renews(self, t: int, f: str) -> None:
        token = self.token(t, f)
        assert self.call(self.store.renew(self.cid, token))[0] == self.model.renew(token)

    @rule(t=which, f=forged)
    def owner_releases(self, t: int, f: str) -> None:
        token = self.token(t, f)
        assert self.call(self.store.release(self.cid, token))[0] == self.model.release(token)

    @rule(t=which, f=forged, again=st.booleans())
    def owner_appends(self, t: int, f: str, again: bool) -> None:
        token, request = self.token(t, f), f"r{next(ids)}"
        outcome, first = self.call(self.store.append(self.cid, token, request, NewEvent("tool.called", {})))
        assert outcome == self.model.append(token)
        if again and first:
            assert self.call(self.store.append(self.cid, token, request, NewEvent("tool.called", {})))[1] == first

    @rule(t=which, f=forged, draft=st.sampled_from(["", "m_1", "m_2"]))
    def owner_streams(self, t: int, f: str, draft: str) -> None:
        token, what = self.token(t, f), Ephemeral("msg.delta", {})
        outcome, _ = self.call(self.store.relay(self.cid, token, what, message_id=draft, piece="x"))
        assert outcome == self.model.relay(token, draft)

    # -- people ----------------------------------------------------------------------------------------------------

    @rule(who=person, force=st.booleans(), epoch=st.sampled_from(["", "", "right", "old"]), again=st.booleans())
    def person_takes_over(self, who: str, force: bool, epoch: str, again: bool) -> None:
        expected = {"": None, "right": self.epoch, "old": self.epoch - 1}[epoch]
        fence = new_fence()

        async def takeover() -> Any:
            return await self.store.takeover(
                self.cid, who, change={}, force=force, expected_epoch=expected, presence_ms=LEASE_MS, fence=fence
            )

        outcome, taken = self.call(takeover())
        assert outcome == self.model.takeover(who, force=force, epoch_is_right=epoch != "old")
        if taken is None:
            return
        self.got(taken.token)
        if again:
            assert self.call(takeover())[1] == taken

    @rule(t=which, f=forged, to=st.sampled_from(["queue:support", "human:ann"]), again=st.booleans())
    def owner_offers(self, t: int, f: str, to: str, again: bool) -> None:
        token, offer = self.token(t, f), f"o{next(ids)}"

        async def make() -> int:
            return await self.store.offer(self.cid, token, offer, to=Owner.parse(to), valid_ms=DEADLINE_MS)

        outcome, deadline = self.call(make())
        assert outcome == self.model.make_offer(token, offer, to)
        if again and deadline:
            assert self.call(make())[1] == deadline

    def some_offer(self, current: bool) -> str:
        known = list(self.model.offers)
        return self.model.offer if current and self.model.offer else known[-1] if known else "o0"

    @precondition(lambda self: self.model.offers)
    @rule(who=person, current=st.booleans(), again=st.booleans())
    def person_accepts(self, who: str, current: bool, again: bool) -> None:
        offer, fence = self.some_offer(current), new_fence()

        async def accept() -> Any:
            return await self.store.accept(self.cid, offer, who, change={}, presence_ms=LEASE_MS, fence=fence)

        outcome, taken = self.call(accept())
        assert outcome == self.model.accept(offer, who)
        if taken is None:
            return
        self.got(taken.token)
        if again:
            assert self.call(accept())[1] == taken

    @precondition(lambda self: self.model.offers)
    @rule(who=person, current=st.booleans(), again=st.booleans())
    def person_declines(self, who: str, current: bool, again: bool) -> None:
        offer = self.some_offer(current)
        outcome, seq = self.call(self.store.decline(self.cid, offer, f"human:{who}"))
        assert outcome == self.model.decline(offer, f"human:{who}")
        if again and seq:
            assert self.call(self.store.decline(self.cid, offer, f"human:{who}"))[1] == seq

    @precondition(lambda self: self.model.offers)
    @rule(t=which, f=forged, current=st.booleans(), again=st.booleans())
    def owner_cancels(self, t: int, f: str, current: bool, again: bool) -> None:
        token, offer = self.token(t, f), self.some_offer(current)
        outcome, seq = self.call(self.store.cancel(self.cid, token, offer))
        if again and seq:
            assert self.call(self.store.cancel(self.cid, token, offer))[1] == seq
        assert outcome == self.model.cancel(token, offer)

    # -- time ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.model.live)
    @rule(clock_set_back=st.booleans())
    def lease_ends(self, clock_set_back: bool) -> None:
        self.bench.run(self._edit({"lease": str(self._now() + FAR_MS) if clock_set_back else "1"}))
        self.model.live = False

    @precondition(lambda self: self.model.exists and self.model.holder is None)
    @rule()
    def clock_is_set_back(self) -> None:
        """The epoch was given out by a clock that was an hour ahead."""
        self.epoch += HOUR_MS
        self.bench.run(self.redis.hset(self.keys.own, "epoch", str(self.epoch)))

    @precondition(lambda self: self.model.offer)
    @rule()
    def offer_runs_out(self) -> None:
        self.bench.run(self._edit({"offer_by": "1"}))
        self.model.offer_late = True

    @precondition(lambda self: any(not self.model.questions[id_].late for id_ in self.model.asked))
    @rule()
    def approval_runs_out(self) -> None:
        id_ = sorted(id_ for id_ in self.model.asked if not self.model.questions[id_].late)[0]
        asks = " ".join(
            f"{name}=1" if name == id_ else f"{name}={ms}"
            for name, ms in (entry.split("=") for entry in self.look().own["asks"].split())
        )
        self.bench.run(self._late_approval(id_, asks + " "))
        self.model.questions[id_].late = True

    async def _late_approval(self, id_: str, asks: str) -> None:
        await self.redis.hset(self.keys.approval(id_), "deadline", "1")
        await self._edit({"asks": asks})

    async def _edit(self, fields: dict[str, str]) -> None:
        """Make time pass: what is scheduled for later would be due by then."""
        await self.redis.hset(self.keys.own, mapping=fields)
        due = due_key(self.keys.shard)
        if await self.redis.zscore(due, self.cid) is not None:
            await self.redis.zadd(due, {self.cid: 1})

    def _now(self) -> int:
        return self.look().now

    @rule()
    def sweep_attends(self) -> None:
        outcome, found = self.call(self.store.attend(self.cid))
        assert outcome == "ok" and found is not None
        got = f"moved {found.why}" if found.what is What.MOVED else found.what.value
        assert got == self.model.attend(found.why)

    # -- approvals, journal, values --------------------------------------------------------------------------------

    @rule(
        t=which,
        f=forged,
        id_=st.sampled_from(["a1", "a2"]),
        arguments=st.sampled_from(["x", "x", "x", "x", "x", "x", "y"]),
        default=st.sampled_from(["refused", "granted"]),
        rebind=st.booleans(),
    )
    def agent_asks(self, t: int, f: str, id_: str, arguments: str, default: Any, rebind: bool) -> None:
        token = self.token(t, f)
        outcome, found = self.call(
            self.store.ask_approval(
                self.cid,
                token,
                id_,
                arguments=arguments,
                call={},
                valid_ms=DEADLINE_MS,
                default=default,
                rebind=rebind,
            )
        )
        expected = self.model.ask(token, id_, arguments, default, rebind=rebind)
        assert self.described(outcome, found) == expected
        if found is not None:
            assert found.void == (self.model.tenure != self.model.questions[id_].tenure)

    @precondition(lambda self: self.model.kind == "ai")
    @rule(t=which, f=forged, id_=st.sampled_from(["a1", "a2", ""]), again=st.booleans())
    def owner_rests(self, t: int, f: str, id_: str, again: bool) -> None:
        token, request = self.token(t, f), f"r{next(ids)}"
        asks = [Question(id_, "x", {}, DEADLINE_MS)] if id_ else []

        async def rest() -> Any:
            return await self.store.commit(self.cid, token, request, asks=asks, rest=True, needs="state")

        outcome, done = self.call(rest())
        assert outcome == self.model.rest(token, id_)
        if again and done is not None:
            self.same(rest(), done)

    def described(self, outcome: str, found: Any) -> str:
        return outcome if found is None else f"{'known' if found.duplicate else 'ok'} {found.state}"

    @precondition(lambda self: self.model.questions)
    @rule(id_=st.sampled_from(["a1", "a2"]), verdict=st.sampled_from(["granted", "granted", "refused"]), who=person)
    def person_decides(self, id_: str, verdict: Any, who: str) -> None:
        by = f"human:{who}"
        outcome, found = self.call(self.store.decide_approval(self.cid, id_, verdict, by=by))
        got = outcome if found is None else f"{self.described(outcome, found)} {found.by}"
        assert got == self.model.decide(id_, verdict, by)

    @precondition(lambda self: self.model.questions)
    @rule(
        t=which,
        f=forged,
        id_=st.sampled_from(["a1", "a2"]),
        arguments=st.sampled_from(["x", "x", "x", "x", "x", "x", "y"]),
        use=st.sampled_from(["u1", "u2"]),
    )
    def agent_uses(self, t: int, f: str, id_: str, arguments: str, use: str) -> None:
        token = self.token(t, f)
        outcome, found = self.call(self.store.use_approval(self.cid, token, id_, arguments=arguments, use=use))
        assert self.described(outcome, found) == self.model.use(token, id_, arguments, use)

    @rule(t=which, f=forged, call=st.sampled_from(["k1", "k2"]), again=st.booleans())
    def tool_begins(self, t: int, f: str, call: str, again: bool) -> None:
        token = self.token(t, f)
        outcome, begun = self.call(self.store.begin_call(self.cid, token, call, again=again))
        if begun is not None:
            outcome = "run" if begun.run else f"done {begun.result}"
        assert outcome == self.model.begin(token, call, again=again)

    @rule(t=which, f=forged, call=st.sampled_from(["k1", "k2"]))
    def tool_finishes(self, t: int, f: str, call: str) -> None:
        token, result = self.token(t, f), f"result{next(ids)}"
        outcome, kept = self.call(self.store.finish_call(self.cid, token, call, result))
        if kept is not None:
            outcome = f"ok {kept}"
        assert outcome == self.model.finish(token, call, result)

    @rule(choice=st.sampled_from([0, 0, 1]), who=person, again=st.booleans())
    def person_sets_a_value(self, choice: int, who: str, again: bool) -> None:
        rev, request = self.model.values.get("v", 0) + choice, f"r{next(ids)}"

        async def set_values() -> tuple[int, bool]:
            return await self.store.set_values(self.cid, request, self.write(rev), by=f"human:{who}")

        outcome, done = self.call(set_values())
        assert outcome == self.model.set_value("v", rev, f"human:{who}")
        if again and done:
            assert self.call(set_values())[1] == (done[0], True)

    @precondition(lambda self: len(self.model.log) > 6)
    @rule(sure=st.sampled_from([False, False, False, True]))
    def person_closes(self, sure: bool) -> None:
        if sure:
            assert self.call(self.store.close(self.cid))[0] == self.model.close()

    # -- after each step -------------------------------------------------------------------------------------------

    def look(self) -> Seen:
        return self.bench.run(self._look())

    async def _look(self) -> Seen:
        keys = self.keys
        async with self.redis.pipeline(transaction=False) as pipe:
            pipe.time()
            for key in (keys.own, keys.values, keys.offer, keys.journal):
                pipe.hgetall(key)
            pipe.xrange(keys.log)
            pipe.lrange(keys.inbox, 0, -1)
            pipe.get(keys.draft)
            pipe.zscore(due_key(keys.shard), self.cid)
            for agent in AGENTS:
                pipe.lrange(keys.history(agent), 0, -1)
            time, own, values, offer, journal, log, inbox, draft, due, *histories = await pipe.execute()
        return Seen(
            now=int(time[0]) * 1000 + int(time[1]) // 1000,
            own=own,
            log=replies.events(log),
            inbox=[message.message_id for message in replies.pending(inbox)],
            values=values,
            offer=offer,
            journal=journal,
            draft=draft or "",
            histories={
                agent: [item["n"] for item in replies.items(rows)]
                for agent, rows in zip(AGENTS, histories, strict=True)
            },
            due=due,
        )

    @invariant()
    def redis_holds_what_the_model_holds(self) -> None:
        seen, model = self.look(), self.model
        if not model.exists:
            assert not seen.own
            return
        check_log(seen, model)
        own = seen.own
        assert (own["kind"], own["owner"]) == model.owner, "one owner (I2)"
        assert (own["st"] == "open") == model.open
        assert seen.inbox == model.inbox, "waiting messages in order (I4)"
        assert seen.histories == model.histories, "only X's commits change h:X (I9)"
        assert {key[4:]: int(rev) for key, rev in seen.values.items() if key.startswith("rev:")} == model.values
        assert {key[4:]: int(val) for key, val in seen.values.items() if key.startswith("val:")} == model.values
        assert (own["offer"], bool(seen.offer)) == (model.offer, bool(model.offer)), "at most one offer (I7)"
        assert (own["draft"], bool(seen.draft)) == (model.draft, bool(model.draft))
        assert seen.journal.keys() == model.journal.keys()
        self.check_token(seen)
        self.check_schedule(seen)

    def check_token(self, seen: Seen) -> None:
        epoch, holder = int(seen.own["epoch"]), self.model.holder
        assert epoch >= self.epoch, "epochs never decrease (I3)"
        if self.model.tenure != self.tenure:
            assert epoch > self.epoch, "the owner changes with a larger epoch only (I2)"
        if epoch != self.epoch and self.time:
            assert epoch >= self.time, "an epoch is at least Redis' time: a counter that was rolled back cannot give it"
        self.epoch, self.tenure, self.time = epoch, self.model.tenure, seen.now
        held = Token(epoch, seen.own["fence"]) if seen.own["fence"] else None
        assert held == holder, "one token (I1)"
        assert len({token.epoch for token in self.tokens}) == len(self.tokens), "no epoch is given out twice (I1)"
        lease = int(seen.own["lease"])
        assert (seen.now < lease <= seen.now + MAX_LEASE_MS) == self.model.live
        assert int(seen.own["att"]) == self.model.attempts

    def check_schedule(self, seen: Seen) -> None:
        look = self.model.look()
        found = "never"
        if seen.due is not None:
            found = "now" if seen.due <= seen.now or seen.due > seen.now + MAX_LEASE_MS else "later"
        if seen.due is not None and (self.model.offer or self.model.asked):
            deadlines = [int(seen.own["offer_by"])] if self.model.offer else []
            deadlines += [int(entry.split("=")[1]) for entry in seen.own["asks"].split()]
            assert seen.due <= max(min(deadlines), seen.now), "the next deadline is not missed (I12)"
        assert found == look or (found == "now" and look == "later"), f"{look} it must be looked at, not {found} (I12)"


def check_log(seen: Seen, model: Model) -> None:
    """The log is the model's, and keeps the invariants by itself."""
    found = [Entry(event.type, event.by, event.owner_from, event.owner_to) for event in seen.log]
    assert found == model.log
    assert [event.seq for event in seen.log] == list(range(1, len(seen.log) + 1)), "seq is gapless (I3)"
    assert int(seen.own["seq"]) == len(seen.log)
    epochs = [event.epoch for event in seen.log]
    assert epochs == sorted(epochs) and epochs[-1] <= int(seen.own["epoch"]), "epochs never decrease (I3)"
    owner = "ai:triage"
    for event in seen.log:
        if event.type == "owner.changed":
            assert event.owner_from == owner, "from is the owner before (I6)"
            owner = event.owner_to
        elif event.type == "msg.created" and event.by != "customer":
            assert event.by == owner, "only the owner speaks (I5)"
    assert owner == f"{seen.own['kind']}:{seen.own['owner']}", "to is the owner after (I6)"
    assert len(set(model.answered)) == len(model.answered), "a message is answered once (I4)"
    uses = [event.data["approval"] for event in seen.log if event.type == "approval.used"]
    assert len(uses) == len(set(uses)), "an approval is used once (I11)"


def machine_for(bench: Bench, only: Collection[str] = ()) -> type[Conversation]:
    """The machine over one set of scripts; with `only` these rules and no others."""
    rules = {name for name, member in vars(Conversation).items() if hasattr(member, RULE_MARKER)}
    left_out: dict[str, Any] = dict.fromkeys(rules - set(only)) if only else {}
    assert set(only) <= rules, f"no such rules: {set(only) - rules}"
    return type("Machine", (Conversation,), {"bench": bench, **left_out})


@contextmanager
def open_bench(folder: Path) -> Iterator[Bench]:
    """The shipped scripts on an embedded server of its own in `folder`, driven from one loop.

    It does not write to the disk: what a crash leaves is another test's question, and fsync is most of a call's time.
    """
    with asyncio.Runner() as runner:
        backend = runner.run(connect(f"embedded://{folder}", data_dir=folder))
        bench = Bench(runner, backend, Scripts(backend.cmd))
        bench.run(backend.cmd.config_set("appendonly", "no"))
        try:
            yield bench
        finally:
            runner.run(backend.close())
