"""What the router remembers of a turn that rests until somebody decides about a call. Plain data, part of RouterState.

What the SDK needs to go on (its RunState) is larger and only read when the turn goes on: the store keeps it beside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from handoffs.transfer import TransferRequest
from sessions.approvals import arguments_hash
from sessions.model import Item

PENDING = "Not done yet: somebody has to decide about this call first."  # its result, until there is one


class Wish(BaseModel):
    """A call that a model made and that must not run before somebody agrees. `agent` may be one that was asked."""

    model_config = ConfigDict(frozen=True)

    call_id: str
    tool: str
    agent: str
    arguments: str

    @property
    def parsed(self) -> dict[str, Any]:
        """The arguments; what is no JSON object comes as `{"": text}`."""
        try:
            found = json.loads(self.arguments or "{}")
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {"": self.arguments}

    @property
    def hash(self) -> str:
        """What the approval is bound to."""
        return arguments_hash(self.tool, self.parsed)


class Waiting(Wish):
    """A wish that was asked about under `approval_id`."""

    approval_id: str


class Rest(BaseModel):
    """A turn that rests. It counts while `agent` is still the owner since the same `tenure`.

    `asked` messages at the front of the inbox are being answered, the others came meanwhile. The newest `kept` items of
    the agent's history are this run's and are told anew when it goes on; the customer has read what stands in the first
    `told` of its items. `ids` are all approvals of the turn, `line`: the customer was told that it takes a while.
    """

    model_config = ConfigDict(frozen=True)

    agent: str
    tenure: int
    turn: str
    asked: int
    kept: int
    told: int
    calls: tuple[Waiting, ...]
    ids: tuple[str, ...]
    line: bool = False
    request: TransferRequest | None = None

    def holds(self, agent: str, tenure: int) -> bool:
        """Whether the owner is still who it was, all the time since."""
        return (self.agent, self.tenure) == (agent, tenure)

    def undecided(self, asks: Collection[str]) -> bool:
        """Whether every one of its calls is among the approvals that wait."""
        return all(call.approval_id in asks for call in self.calls)


def named(wishes: Iterable[Wish], before: Rest | None, place: str, ids: Iterable[str]) -> tuple[Waiting, ...]:
    """`wishes` with their approval ids: those of `before` keep theirs, others get the next free one of their call.

    `place` names the conversation, the owner's tenure and the turn; `ids` are those that the turn has used already.
    An id can be worked out again from the same facts, so whoever was sent a link to it can use it for ever.
    """
    known = {(call.tool, call.call_id): call.approval_id for call in before.calls} if before else {}
    used = set(ids)
    found = []
    for wish in wishes:
        id_ = known.get((wish.tool, wish.call_id)) or _free_id(wish, place, used)
        used.add(id_)
        found.append(Waiting(**wish.model_dump(), approval_id=id_))
    return tuple(found)


def _free_id(wish: Wish, place: str, used: Collection[str]) -> str:
    n = 1
    while (id_ := approval_id(wish, place, n)) in used:
        n += 1
    return id_


def approval_id(wish: Wish, place: str, n: int) -> str:
    """The id of the n-th equal call at `place`: the same whoever works it out."""
    text = "\x00".join((place, wish.agent, wish.tool, wish.hash, str(n)))
    return "ap_" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:20]


def with_results(items: Iterable[Item]) -> list[Item]:
    """`items` in which every call has a result: PENDING where there is none yet, as the model APIs demand."""
    whole = list(items)
    done = {item.get("call_id") for item in whole if item.get("type") == "function_call_output"}
    open_ = [item["call_id"] for item in whole if item.get("type") == "function_call" and item["call_id"] not in done]
    return [*whole, *({"type": "function_call_output", "call_id": id_, "output": PENDING} for id_ in open_)]


def labels(before: Mapping[str, str], outcomes: Mapping[str, str]) -> dict[str, str]:
    """The labels that a route branches on: `approval.<tool>` is granted, refused or expired, the newest answer."""
    return {**before, **{f"approval.{tool}": outcome for tool, outcome in outcomes.items()}}
