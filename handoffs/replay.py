"""Replay of a recorded run: the models say what they said, tools give what they gave, and the present roster decides.

Everything that decides is real: the turn, the routes, the store (a Valkey of its own, thrown away afterwards). Nothing
outside is touched: no model is asked, no tool runs, and no Python of the agents folder is imported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from handoffs.errors import NotReplayable
from handoffs.played import PlayedModels, PlayedTeam, Playing
from handoffs.record import joined, tool_calls
from handoffs.roster import Burst, History, Roster
from handoffs.turn import Turn
from handoffs.turn_values import NAMED_ONLY
from sessions.connect import connect
from sessions.model import Owner, ValueWrite
from sessions.store import Store

CONVERSATION = "c_replay"  # in a store of its own, so the name is free
WITHHELD = (
    NAMED_ONLY,
    "[hidden]",
)  # what stands for a customer's value in a record, and for a sensitive one in the API
STATE = ("language", "transfers", "trail", "plan", "labels")  # of the router's memory: what decisions depend on


@dataclass(frozen=True, slots=True)
class Decided:
    """What one owner did that others can see. `transfer` is `target (decided by)`, `refused` are targets."""

    owner: str
    outcome: str
    owner_after: str
    transfer: str
    refused: tuple[str, ...]
    tools: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that came out otherwise. `step` counts from 1; `then` or `now` is empty where there is no such step."""

    step: int
    what: str
    then: str
    now: str


@dataclass(frozen=True)
class Replayed:
    """Both ways of the run. `same`: the present roster decides as the recorded one did.

    `unknown` are notes on conditions that ask for a value that is not recorded. With any, a difference tells nothing.
    """

    then: tuple[Decided, ...]
    now: tuple[Decided, ...]
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "differences", tuple(_differences(self.then, self.now)))

    @property
    def same(self) -> bool:
        return not self.differences

    @property
    def verdict(self) -> str:
        """What to say of it in two words."""
        if self.same:
            return "same decisions"
        return "cannot tell" if self.unknown else "other decisions"


async def replay(run: Mapping[str, Any], roster: Roster) -> Replayed:
    """Play a run, as `GET /v1/runs/{id}` gives it, on `roster`, in a store of its own that is thrown away.

    Raises NotReplayable for a run that is not whole, or whose beginning is not in its record.
    """
    steps: Sequence[Mapping[str, Any]] = run["steps"]
    _check(run, steps)
    with tempfile.TemporaryDirectory(prefix="frontdesk-replay-", ignore_cleanup_errors=True) as folder:
        return await _play(run, steps, roster, Path(folder))


async def _play(run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], roster: Roster, data_dir: Path) -> Replayed:
    playing = Playing(steps)
    team = PlayedTeam(
        roster=_plain(roster),
        models=PlayedModels(playing),
        tools=dict.fromkeys(roster.agents, ()),
        data_dir=data_dir,
        clock=lambda: datetime.fromisoformat(str(run["began"])),
        playing=playing,
    )
    backend = await connect(None, data_dir=data_dir)
    try:
        store = Store(backend)
        await _begin(store, run, steps, playing)
        turn = Turn(store, team, await store.claim(CONVERSATION, hint=_agent(steps[0])))
        await turn.run()
        (rows,) = await store.run_records([CONVERSATION])
        (made,) = joined(CONVERSATION, rows)
    finally:
        await backend.close()
    now = tuple(_decided(_as_shown(part)) for part in made.parts)
    then = tuple(_decided(step) for step in steps)
    unknown = tuple(dict.fromkeys(_unknown(run, steps, roster, {step.owner for step in (*then, *now)})))
    return Replayed(then, now, (*playing.notes, *unknown), unknown)


def _unknown(
    run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], roster: Roster, owners: Collection[str]
) -> Iterator[str]:
    """The conditions of these owners that compare a value of which the record only says that it was set."""
    shown = [run.get("values", {}), *(step.get("values", {}) for step in steps)]
    kept_back = {key for values in shown for key, value in values.items() if value in WITHHELD}
    kept_back.update(run.get("lasting", ()))
    for spec in roster.agents.values():
        for step in spec.then if f"ai:{spec.id}" in owners else ():
            for test in step.condition.tests if step.condition else ():
                if test.subject in kept_back and test.operator not in ("set", "not set"):
                    yield f"{spec.id}: `when: {step.when}` depends on a value that is not recorded ({test.subject})"


def _check(run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> None:
    if not run.get("whole") or not steps:
        raise NotReplayable(str(run.get("id")), "its record is not whole: parts are gone, or something in it was cut")
    if run["outcome"] == "broken":
        raise NotReplayable(str(run["id"]), "it was given up in the middle, and decided nothing")
    if not steps[0]["messages"] or run.get("resumed"):
        raise NotReplayable(str(run["id"]), "it went on after an approval; where it had stopped is not in its record")
    if not steps[0]["owner"].startswith("ai:"):
        raise NotReplayable(str(run["id"]), f"{steps[0]['owner']} is no agent")


def _plain(roster: Roster) -> Roster:
    """The roster without what would ask models or run code for the next owner's view, and without pauses.

    Neither changes a decision: what models made of what they saw is in the record.
    """
    agents = {
        name: spec.model_copy(
            update={
                "history": History(mode="none"),
                "burst": Burst(policy="queue" if spec.burst.policy == "queue" else "coalesce", cap=spec.burst.cap),
            }
        )
        for name, spec in roster.agents.items()
    }
    return roster.model_copy(update={"agents": agents})


async def _begin(store: Store, run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], playing: Playing) -> None:
    """The conversation as it was when the run began."""
    state = {key: value for key, value in run.get("state", {}).items() if key in STATE}
    owner = Owner.ai(_agent(steps[0]))

    async def write(message: Mapping[str, Any]) -> None:
        data = {"id": f"m_{message['seq']}", "text": message["text"]}
        await store.enqueue(CONVERSATION, f"m{message['seq']}", data, start=owner, meta=state)

    for message in steps[0]["messages"]:
        await write(message)
    playing.write = write
    values = {**dict.fromkeys(run.get("lasting", ()), NAMED_ONLY), **run.get("values", {})}
    if values:
        writes = [ValueWrite(key, value) for key, value in values.items()]
        await store.set_values(CONVERSATION, "values", writes, by="system")


def _agent(step: Mapping[str, Any]) -> str:
    return str(step["owner"]).partition(":")[2]


def _as_shown(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a record in the words of the API."""
    return {**part, "owner_after": part.get("after", ""), "tools": tool_calls(part)}


def _decided(step: Mapping[str, Any]) -> Decided:
    moved = step.get("transfer")
    return Decided(
        owner=str(step["owner"]),
        outcome=str(step["outcome"]),
        owner_after=str(step["owner_after"]),
        transfer=f"{moved['to']} (decided by {moved.get('decided_by', '')})" if moved else "",
        refused=tuple(str(refusal.get("to", "")) for refusal in step.get("refusals", ())),
        tools=tuple(str(tool["name"]) for tool in step.get("tools", ())),
        text=str(step.get("text", "")),
    )


def _differences(then: Sequence[Decided], now: Sequence[Decided]) -> Iterator[Difference]:
    for place in range(max(len(then), len(now))):
        before = then[place] if place < len(then) else None
        after = now[place] if place < len(now) else None
        if before is None or after is None:
            yield Difference(place + 1, "step", _in_short(before), _in_short(after))
            continue
        for what in Decided.__slots__:
            old, new = getattr(before, what), getattr(after, what)
            if old != new:
                yield Difference(place + 1, what, _words(old), _words(new))


def _in_short(decided: Decided | None) -> str:
    return f"{decided.owner} {decided.outcome}" if decided is not None else ""


def _words(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ", ".join(value)
