"""What an agent's tools and instructions get as `ctx.context` while a turn runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from handoffs.alarms import Alarms
from handoffs.call_notes import under_way
from handoffs.policy import Decide, Decision, Refused
from handoffs.recorder import Call, Recorder
from handoffs.roster import AgentSpec
from handoffs.transfer import TransferRequest


class Values(Protocol):
    """The conversation's shared values as this agent may see them; its contract is checked on each call."""

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`; ValueNotAllowed when this agent may not read it."""
        ...

    def set(self, key: str, value: Any) -> None:
        """Set `key` when the turn commits; ValueNotAllowed or ValueInvalid when the contract says no."""
        ...

    def increment(self, key: str, by: int | float = 1) -> int | float:
        """Count `key` up when the turn commits; what it is then. Two who count at the same time both count."""
        ...

    def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Set `key` to `change(old)`; what it is then. `change` is called again when others changed it meanwhile."""
        ...

    def again(self, changes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Make the changes that an earlier attempt noted; the keys that others changed since, which are left alone."""
        ...

    def is_set(self, key: str) -> bool:
        """Whether `key` has a true value; asked by entry conditions, whoever may read it."""
        ...

    def known(self) -> Iterator[tuple[str, Any]]:
        """The readable values that are set."""
        ...

    def seen_by(self, agent: AgentSpec, *, only_reads: bool = False) -> Values:
        """The same values under the contract of `agent`, which is asked as a tool; `only_reads`: it may set none."""
        ...


class Ledger(Protocol):
    """Writes down calls that change something outside (see handoffs/ledger.py)."""

    def key(self, agent_id: str, tool_name: str, arguments: str) -> str: ...

    async def begin(self, key: str) -> tuple[bool, Any]: ...

    async def finish(self, key: str, result: Any) -> Any: ...


class Released(Protocol):
    """The calls of this run that somebody agreed to (see handoffs/approvals.py)."""

    def asked(self, tool: str, call_id: str) -> bool: ...

    async def key(self, tool: str, call_id: str, arguments: str) -> str: ...


def stays_inside(to: str) -> Decision:
    """What becomes of a transfer where nobody may move the conversation: refused."""
    return Refused(to, "transfers are not possible here.", ())


def _unobserved(kind: str, data: Mapping[str, Any]) -> None:
    """Nobody looks."""


@dataclass
class Asks:
    """Counts the requests to agents as tools, over the whole turn."""

    made: int = 0


@dataclass
class TurnContext:
    """One agent's run inside a turn. Made anew for each run; nothing in it outlives the commit.

    `language` is the customer's (a code from desk.yaml); `data_dir` is a folder that tools may keep files in;
    `idempotency_key` is the same when this turn is run again after a crash, and different for each tool call.
    `turn_id` names the messages that are being answered, `step` this owner's work on them up to its next commit.

    An agent that is asked as a tool has a context of its own. `path` then leads to it from the owner, `deadline` (of
    the event loop's clock, 0: none) is when it must have answered. `observe(kind, data)` tells observers what happens
    inside; nothing of it reaches the customer or the caller's history.

    Of a host, `spoken` is an answer that its specialists gave word for word, and `postscript` the sentence that follows
    any answer when some of them, `missing`, gave none. `recording` is the call of an asked agent's model under way.
    """

    conversation_id: str
    agent_id: str
    epoch: int
    language: str
    values: Values
    data_dir: Path
    turn_id: str = ""
    step: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    request: TransferRequest | None = None
    refusals: list[dict[str, str]] = field(default_factory=list)
    allowed_targets: tuple[str, ...] = ()
    decide: Decide = stays_inside
    ledger: Ledger | None = None
    app: Any = None  # the context object of SDK agents, when `Roster.from_agents` was told how to make it
    recorder: Recorder | None = None
    path: tuple[str, ...] = ()
    deadline: float = 0.0
    asks: Asks = field(default_factory=Asks)
    alarms: Alarms | None = None
    observe: Callable[[str, Mapping[str, Any]], None] = _unobserved
    spoken: str = ""
    postscript: str = ""
    missing: tuple[str, ...] = ()
    recording: Call | None = None
    released: Released | None = None

    def idempotency_key(self, tool_name: str, arguments: str) -> str:
        """A key for an outside system, stable across re-runs of the same call in the same turn.

        Two calls have two keys, also with equal arguments; only equal calls of a tool under `read_only` share one.
        """
        call = under_way()
        facts = (tool_name, arguments, self.step, self.agent_id, call.name if call is not None else "")
        digest = hashlib.sha256("\x00".join(facts).encode()).hexdigest()[:24]
        return f"{self.conversation_id}:{self.turn_id}:{digest}"
