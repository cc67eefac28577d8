"""The reference model: what one conversation must look like after each call, in plain Python without Redis.

Each method is one call of the store. It gives the outcome as a word (`ok`, `stale`, `conflict value v` ...) and, when
that is `ok`, changes the model. Time is a set of flags: is the lease live, is an offer or an approval late.

Longer than 500 lines because there is one method for each call of the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sessions.model import Token

MAX_ATTEMPTS = 3
START = ("ai", "triage")
SUPPORT = ("queue", "support")


@dataclass(frozen=True)
class Entry:
    """One event of the log: its type, who did it, and for a change of owner from whom to whom."""

    type: str
    by: str
    owner_from: str = ""
    owner_to: str = ""


@dataclass
class Question:
    """An approval. `tenure` counts the owners: it is void when another one came."""

    agent: str
    tenure: int
    arguments: str
    default: str
    state: str = "asked"
    by: str = ""
    use: str = ""
    late: bool = False


@dataclass
class Model:
    """One conversation."""

    exists: bool = False
    open: bool = True
    owner: tuple[str, str] = START
    tenure: int = 0
    holder: Token | None = None
    live: bool = False
    attempts: int = 0
    inbox: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    histories: dict[str, list[str]] = field(default_factory=lambda: {"triage": [], "billing": [], "orders": []})
    values: dict[str, int] = field(default_factory=dict)
    draft: str = ""
    offer: str = ""
    offer_to: str = ""
    offer_late: bool = False
    offers: dict[str, str] = field(default_factory=dict)
    enders: dict[str, str] = field(default_factory=dict)  # who declined or cancelled an offer: they may say it again
    questions: dict[str, Question] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    wake: set[str] = field(default_factory=set)
    woken: set[str] = field(default_factory=set)
    rests: bool = False  # waiting messages stay until what was asked is decided
    journal: dict[str, tuple[str, Token | None]] = field(default_factory=dict)  # call -> result ('' = begun), by whom

    # -- facts -----------------------------------------------------------------------------------------------------

    @property
    def ref(self) -> str:
        return ":".join(self.owner)

    @property
    def kind(self) -> str:
        return self.owner[0]

    @property
    def has_work(self) -> bool:
        held_back = self.rests and self.asked
        return bool((self.inbox and not held_back) or self.wake or self.woken)

    def holds(self, token: Token) -> bool:
        return self.exists and self.holder is not None and token == self.holder

    def look(self) -> str:
        """When somebody must look: `now`, `later` or `never` (I12)."""
        if not self.exists or not self.open:
            return "never"
        whens = []
        if self.kind == "human" or (self.kind == "ai" and self.has_work):
            whens.append("later" if self.live else "now")
        if self.offer:
            whens.append("now" if self.offer_late else "later")
        whens += ["now" if self.questions[id_].late else "later" for id_ in self.asked]
        return "now" if "now" in whens else "later" if whens else "never"

    def bound(self, question: Question) -> bool:
        return self.owner == ("ai", question.agent) and self.tenure == question.tenure

    # -- what several calls do -------------------------------------------------------------------------------------

    def _say(self, type_: str, by: str = "") -> None:
        self.log.append(Entry(type_, by or self.ref))

    def _retract(self) -> None:
        if self.draft:
            self._say("msg.retracted", "system")
        self.draft = ""

    def _free(self) -> None:
        self.holder, self.live = None, False

    def _take(self) -> None:
        self.attempts += 1
        self.live = True
        self.woken |= self.wake
        self.wake = set()
        self._retract()

    def _change(self, to: tuple[str, str], by: str) -> None:
        self._retract()
        self.log.append(Entry("owner.changed", by, self.ref, ":".join(to)))
        if self.offer:
            self.offers[self.offer] = "void"
        self.offer, self.offer_late = "", False
        self.asked, self.wake, self.woken = set(), set(), set()
        self.owner = to
        self.tenure += 1
        self.attempts = 0
        self._free()

    def _settle(self, answered: int) -> None:
        self.answered += self.inbox[:answered]
        self.inbox = self.inbox[answered:]
        if self.kind == "ai" or answered:
            self.journal = {}
        self.draft = ""

    def _write(self, key: str, rev: int | None) -> None:
        if rev is not None:
            self.values[key] = self.values.get(key, 0) + 1

    def _refused(self, token: Token, answered: int, key: str, rev: int | None) -> str:
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        if answered > len(self.inbox):
            return "conflict inbox"
        if rev is not None and self.values.get(key, 0) != rev:
            return f"conflict value {key}"
        return ""

    # -- customers and workers -------------------------------------------------------------------------------------

    def enqueue(self, message_id: str, *, claim: bool) -> tuple[str, bool]:
        """The outcome, and whether the caller holds the turn now."""
        if not self.open:
            return "closed", False
        self.exists = True
        self._say("msg.created", "customer")
        self.inbox.append(message_id)
        self.rests = False
        claimed = claim and self.kind == "ai" and not self.live
        if claimed:
            self._take()
        return "ok", claimed

    def claim(self) -> str:
        if not self.exists:
            return "unknown"
        if not self.open:
            return "closed"
        if self.kind != "ai":
            return "not_ai"
        if self.live:
            return "busy"
        if not self.has_work:
            return "idle"
        self._take()
        return "ok"

    def commit(
        self,
        token: Token,
        *,
        answered: int,
        says: bool,
        item: str,
        agent: str,
        drop: int = 0,
        key: str = "v",
        rev: int | None = None,
    ) -> str:
        refused = self._refused(token, answered, key, rev)
        if refused:
            return refused
        if says:
            self._say("msg.created")
        if item:
            old = self.histories[agent]
            self.histories[agent] = [*(old[: len(old) - min(drop, len(old))] if drop >= 0 else []), item]
        self._write(key, rev)
        self._settle(answered)
        self.attempts, self.woken, self.rests = 0, set(), False
        if self.kind == "human" or self.inbox:
            self.live = True
        else:
            self._free()
        return "ok"

    def rest(self, token: Token, id_: str) -> str:
        """The owner asks (unless `id_` is empty) and rests: its turn is given back whatever waits."""
        refused = self._refused(token, 0, "", None)
        if refused:
            return refused
        if id_ in self.questions:
            return f"conflict approval {id_}"
        self._settle(0)
        if id_:
            self._say("approval.asked")
            self.questions[id_] = Question(self.owner[1], self.tenure, "x", "refused")
            self.asked.add(id_)
        self.attempts, self.woken, self.rests = 0, set(), True
        if self.kind == "human":
            self.live = True
        else:
            self._free()
        return "ok"

    def transfer(
        self,
        token: Token,
        to: tuple[str, str],
        *,
        answered: int,
        item: str,
        agent: str,
        seed: str,
        expected_seq: int | None = None,
        key: str = "v",
        rev: int | None = None,
    ) -> str:
        refused = self._refused(token, 0, "", None)
        if refused:
            return refused
        if expected_seq is not None and expected_seq != len(self.log):
            return "conflict log"
        refused = self._refused(token, answered, key, rev)
        if refused:
            return refused
        by = self.ref
        self._say("handoff.requested")
        if item:
            self.histories[agent].append(item)
        self._write(key, rev)
        self._settle(answered)
        self._change(to, by)
        self._say("handoff.completed", by)
        if to[0] == "ai" and seed:
            self.histories[to[1]].append(seed)
        self.live = to[0] == "human"
        return "ok"

    def renew(self, token: Token) -> str:
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        self.live = True
        return "ok"

    def release(self, token: Token) -> str:
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        self._retract()
        self._free()
        return "ok"

    def append(self, token: Token) -> str:
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        self._say("tool.called")
        return "ok"

    def relay(self, token: Token, draft: str) -> str:
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        if draft and draft != self.draft:
            self._retract()
            self.draft = draft
        return "ok"

    # -- people ----------------------------------------------------------------------------------------------------

    def takeover(self, person: str, *, force: bool, epoch_is_right: bool) -> str:
        if not self.exists:
            return "unknown"
        if not self.open:
            return "closed"
        if not epoch_is_right:
            return "conflict epoch"
        if self.kind == "human" and self.owner[1] != person and self.live and not force:
            return "busy"
        self._change(("human", person), f"human:{person}")
        self.live = True
        return "ok"

    def make_offer(self, token: Token, offer: str, to: str) -> str:
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        if self.offer:
            return "pending"
        self._say("offer.made")
        self.offer, self.offer_to, self.offer_late = offer, to, False
        self.offers[offer] = "pending"
        return "ok"

    def _offer_gone(self, offer: str) -> str:
        state = self.offers.get(offer, "unknown")
        return "" if state == "pending" else f"gone {state}"

    def accept(self, offer: str, person: str) -> str:
        if not self.exists:
            return "unknown"
        if not self.open:
            return "closed"
        gone = self._offer_gone(offer)
        if gone:
            return gone
        if self.offer_late:
            return "gone expired"
        if self.offer_to.startswith("human:") and self.offer_to != f"human:{person}":
            return "not_offered"
        self._change(("human", person), f"human:{person}")
        self.offers[offer] = "accepted"
        self.live = True
        return "ok"

    def _end_offer(self, state: str, by: str) -> None:
        self._say(f"offer.{state}", by)
        self.offers[self.offer] = state
        self.offer, self.offer_late = "", False

    def decline(self, offer: str, by: str) -> str:
        if not self.exists:
            return "unknown"
        gone = self._offer_gone(offer)
        if gone:
            return "ok" if gone == "gone declined" and self.enders[offer] == by else gone
        self.enders[offer] = by
        self._end_offer("declined", by)
        return "ok"

    def cancel(self, token: Token, offer: str) -> str:
        state = self.offers.get(offer, "unknown")
        if state not in ("pending", "void", "unknown"):
            return "ok" if state == "cancelled" and self.enders[offer] == str(token) else f"gone {state}"
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        gone = self._offer_gone(offer)
        if gone:
            return gone
        self.enders[offer] = str(token)
        self._end_offer("cancelled", "")
        return "ok"

    # -- time ------------------------------------------------------------------------------------------------------

    def attend(self, first: str = "") -> str:
        """`first` is the late approval that is settled, when several are."""
        if not self.exists or not self.open:
            return "nothing"
        if self.offer and self.offer_late:
            self._end_offer("expired", "system")
            return "offer_expired"
        late = [id_ for id_ in self.asked if self.questions[id_].late]
        if late:
            id_ = first if first in late else late[0]
            self._decided(id_, self.questions[id_].default, "system")
            return "approval_expired"
        if self.live and self.kind in ("ai", "human"):
            return "live"
        if self.kind == "human":
            self._change(SUPPORT, "system")
            return "moved human_lost"
        if self.kind == "ai" and self.has_work:
            if self.attempts >= MAX_ATTEMPTS:
                self._change(SUPPORT, "system")
                return "moved poison"
            return "ready"
        return "nothing"

    def close(self) -> str:
        if not self.exists:
            return "unknown"
        if self.open:
            self._retract()
            self._say("status.changed", "system")
            if self.offer:
                self.offers[self.offer] = "void"
            self.offer, self.offer_late = "", False
            self.asked, self.wake, self.woken = set(), set(), set()
            self.open = False
            self._free()
        return "ok"

    # -- approvals, journal, values --------------------------------------------------------------------------------

    def ask(self, token: Token, id_: str, arguments: str, default: str, *, rebind: bool) -> str:
        known = self.questions.get(id_)
        if known and known.arguments != arguments:
            return "conflict arguments"
        if known and not rebind:
            return f"known {known.state}"
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        if self.kind != "ai":
            return "not_ai"
        if known:
            known.agent, known.tenure = self.owner[1], self.tenure
        else:
            self._say("approval.asked")
            known = self.questions[id_] = Question(self.owner[1], self.tenure, arguments, default)
        if known.state == "asked":
            self.asked.add(id_)
        return f"ok {known.state}"

    def _decided(self, id_: str, verdict: str, by: str) -> None:
        question = self.questions[id_]
        question.state, question.by = verdict, by
        self._say("approval.decided", by)
        self.asked.discard(id_)
        self.wake.add(id_)

    def decide(self, id_: str, verdict: str, by: str) -> str:
        question = self.questions.get(id_)
        if question is None:
            return "no_approval"
        if question.state != "asked":
            return f"known {question.state} {question.by}"
        if not self.open:
            return "closed"
        if not self.bound(question):
            return "void"
        if question.late:
            verdict, by = question.default, "system"
        self._decided(id_, verdict, by)
        return f"ok {verdict} {by}"

    def use(self, token: Token, id_: str, arguments: str, use: str) -> str:
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        question = self.questions.get(id_)
        if question is None:
            return "no_approval"
        if question.arguments != arguments:
            return "conflict arguments"
        if not self.bound(question):
            return "void"
        if question.state == "used" and question.use != use:
            return "used"
        if question.state == "granted":
            question.state, question.use = "used", use
            self._say("approval.used")
        if question.state != "asked":
            self.wake.discard(id_)
        return f"ok {question.state}"

    def begin(self, token: Token, call: str, *, again: bool) -> str:
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        result, by = self.journal.get(call, ("", token))
        if result:
            return f"done {result}"
        if by != token and not again:
            return "unfinished"
        self.journal[call] = ("", token)
        return "run"

    def finish(self, token: Token, call: str, result: str) -> str:
        if not self.holds(token):
            return "stale" if self.exists else "unknown"
        if call not in self.journal:
            return "conflict journal"
        first, by = self.journal[call]
        if first:
            return f"ok {first}"
        if by != token:
            return "conflict journal"
        self.journal[call] = (result, by)
        return f"ok {result}"

    def set_value(self, key: str, rev: int, by: str) -> str:
        if not self.exists:
            return "unknown"
        if not self.open:
            return "closed"
        if self.values.get(key, 0) != rev:
            return f"conflict value {key}"
        self._write(key, rev)
        self._say("values.changed", by)
        return "ok"
