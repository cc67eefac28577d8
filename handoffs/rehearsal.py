"""Rehearse a desk: each agent's model says what a script says, everything else is real, and the log is printed.

    rehearse("agents", {"front": [transfers("planner")], "planner": [says("Where to?")]}, "plan my trip")

The store is a Valkey of its own that is thrown away. It shows what routes do, and serves as a test of one's own files.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agents import Model, ModelProvider, ModelSettings
from agents.testing import ScriptedModel, assistant_message, function_call

from handoffs.approvals import decide
from handoffs.loader import load_roster
from handoffs.roster import AgentSpec
from handoffs.router import CustomerMessage, Router
from handoffs.team import Team
from sessions.connect import connect
from sessions.live import Live
from sessions.model import Event
from sessions.store import Store

CONVERSATION = "c_rehearsal"  # in a store of its own, so the name is free
TURN_S = 30.0  # a scripted turn takes milliseconds; longer than this, and the script does not fit
SWEEP_S = 0.05  # nobody else works on this store
_ids = itertools.count(1)

Output = Any  # an output of a model (`says`, `calls`, `transfers`), a list of several, or the error that it fails with


def says(text: str) -> Output:
    """A message to whoever the agent speaks to."""
    return assistant_message(text, item_id=f"msg_{next(_ids)}")


def calls(tool: str, **arguments: Any) -> Output:
    """A call of a tool; `ask_<agent>`, `delegate_<agent>` and those of a host as well."""
    return function_call(tool, arguments, call_id=f"call_{next(_ids)}")


def transfers(agent_id: str, reason: str = "", **brief: Any) -> Output:
    """A call of `transfer_to_agent`."""
    return calls("transfer_to_agent", agent_id=agent_id, reason=reason, brief=brief)


@dataclass(frozen=True)
class Decision:
    """Somebody at the desk answers the call that waits for an approval."""

    verdict: Literal["granted", "refused"]
    note: str = ""


@dataclass
class Rehearsed:
    """What came of it: the events, who owns the conversation, and what each model was given."""

    scripts: Mapping[str, ScriptedModel]
    events: list[Event] = field(default_factory=list)
    owner: str = ""

    def read(self, agent_id: str, call: int = -1) -> str:
        """The newest thing that an agent's model was given in its n-th call (from 0; the last one)."""
        item: Any = list(self.scripts[agent_id].calls[call].input)[-1]
        return str(item.get("output") or item.get("content"))


@dataclass
class _Models(ModelProvider):
    """`handoffs.team.Models` from scripts. An agent without one has nothing to say, which is a failure of its model."""

    scripts: Mapping[str, ScriptedModel]
    settings: ModelSettings = field(default_factory=ModelSettings)

    @property
    def provider(self) -> ModelProvider:
        return self

    def name_for(self, agent: AgentSpec) -> str:
        return agent.id

    def get_model(self, model_name: str | None) -> Model:
        return self.scripts.get(str(model_name)) or ScriptedModel([])


def rehearse(agents: str | Path, scripts: Mapping[str, Sequence[Output]], *happens: str | Decision) -> Rehearsed:
    """Play a conversation on the agent files in `agents`, and print its log, one line for each event that people see.

    `scripts` has the outputs of each agent's model, one for each call. What `happens` are messages of the customer and
    decisions about calls that wait, each when the answer to the one before is complete. Raises RosterInvalid, and
    TimeoutError when a turn does not end.
    """
    models = {name: ScriptedModel([_step(output) for output in outputs]) for name, outputs in scripts.items()}
    rehearsed = Rehearsed(models)
    with tempfile.TemporaryDirectory(prefix="frontdesk-rehearsal-", ignore_cleanup_errors=True) as folder:
        asyncio.run(_play(Path(agents), Path(folder), rehearsed, happens))
    for line in lines(rehearsed.events):
        print(line)
    return rehearsed


def _step(output: Output) -> Any:
    return output if isinstance(output, list | Exception) else [output]


async def _play(agents: Path, data_dir: Path, rehearsed: Rehearsed, happens: Sequence[str | Decision]) -> None:
    backend = await connect(f"embedded://{data_dir}", data_dir=data_dir)
    try:
        store = Store(backend)
        live = Live(backend, store)
        await live.start()
        team = Team.load(load_roster(agents), _Models(rehearsed.scripts), data_dir=data_dir)
        router = Router(store, live, team, sweep_s=SWEEP_S)
        await router.start()
        try:
            for number, one in enumerate(happens):
                if isinstance(one, str):
                    await router.receive(CONVERSATION, CustomerMessage(f"m{number}", one))
                else:
                    await _decide(store, one)
                async with asyncio.timeout(TURN_S):
                    await _settled(store, router)
        finally:
            await router.stop()
            await live.stop()
        rehearsed.events = await store.read(CONVERSATION)
        rehearsed.owner = (await store.get(CONVERSATION)).owner.ref
    finally:
        await backend.close()


async def _decide(store: Store, decision: Decision) -> None:
    for approval in await store.approvals(CONVERSATION):
        if approval.state == "asked" and not approval.void:
            await decide(
                store, CONVERSATION, approval.approval_id, decision.verdict, by="human:desk", note=decision.note
            )


async def _settled(store: Store, router: Router) -> None:
    """Nothing runs, and nothing waits but for somebody's decision."""
    while True:
        found = await store.get(CONVERSATION)
        busy = router.running or found.woken or (found.waiting and not found.asks and found.owner.kind == "ai")
        if not busy:
            return
        await asyncio.sleep(SWEEP_S)


def lines(events: Sequence[Event]) -> Iterator[str]:
    """What people see of a conversation: who wrote what, and every change of owner."""
    for event in events:
        if event.type in ("msg.created", "notice"):
            yield f"{event.by}: {event.data['text']}"
        elif event.type == "owner.changed":
            yield f"({event.data['from']} -> {event.data['to']}) {event.data.get('text', '')}".rstrip()
