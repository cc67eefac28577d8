"""Hooks: your own functions, called after each step of a handoff. What they do, or fail to do, never touches a turn.

They fire in the process whose commit wrote the record, after it is true, at most once. For a report that survives a
crash of that process, use the signed webhook (app/webhook.py).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sessions.model import NewEvent

log = logging.getLogger("frontdesk.hooks")

STEPS = ("requested", "accepted", "refused", "completed")
HOOK_S = 30.0  # a hook that takes longer is left behind
WAITING = 1000  # conversations whose hooks may be under way; more are told to the log instead


@dataclass(frozen=True, slots=True)
class HandoffInfo:
    """One step of a handoff: `step` is requested, accepted, refused or completed.

    `from_` and `to` are targets as agent files have them (`billing`, `human:support`; a person's login). `reason` of a
    refusal is what the model was told. `epoch` is the conversation's after the step, `seed_size` the characters that
    the new owner was shown, `decided_by` as in the event `owner.changed`.
    """

    conversation_id: str
    step: str
    from_: str
    to: str
    reason: str = ""
    brief: Mapping[str, Any] = field(default_factory=dict)
    epoch: int = 0
    seed_size: int = 0
    decided_by: str = "model"


Hook = Callable[[HandoffInfo], Awaitable[None] | None]


def infos(conversation_id: str, epoch: int, events: Iterable[NewEvent]) -> list[HandoffInfo]:
    """The steps among these events, in their order."""
    return [
        HandoffInfo(
            conversation_id,
            event.type.removeprefix("handoff."),
            from_=str(event.data.get("from", "")),
            to=str(event.data.get("to", "")),
            reason=str(event.data.get("reason") or event.data.get("why") or ""),
            brief=event.data.get("brief") or {},
            epoch=epoch,
            seed_size=sum(len(str(text)) for text in event.data.get("seed", ())),
            decided_by=str(event.data.get("decided_by", "model")),
        )
        for event in events
        if event.type.startswith("handoff.") and event.type.removeprefix("handoff.") in STEPS
    ]


class Hooks:
    """The hooks of one process. Those of one conversation are called one after the other, in the order of its log."""

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self._hooks = list(hooks)
        self._last: dict[str, asyncio.Task[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def on_handoff(self, hook: Hook) -> Hook:
        """Add a hook; may be used as a decorator. A plain function runs in a thread of its own."""
        self._hooks.append(hook)
        return hook

    def written(self, conversation_id: str, epoch: int, events: Iterable[NewEvent]) -> None:
        """These events are in the log now. Never waits, never raises."""
        if not self._hooks:
            return
        found = infos(conversation_id, epoch, events)
        if not found:
            return
        if len(self._last) >= WAITING and conversation_id not in self._last:
            log.error("%s: %d hooks are behind; this handoff is not told to them", conversation_id, len(self._last))
            return
        before = self._last.get(conversation_id)
        task = asyncio.create_task(self._call_all(found, before), name=f"hooks-{conversation_id}")
        self._last[conversation_id] = task
        task.add_done_callback(lambda done: self._forget(conversation_id, done))

    def _forget(self, conversation_id: str, done: asyncio.Task[None]) -> None:
        if self._last.get(conversation_id) is done:
            del self._last[conversation_id]

    async def _call_all(self, found: list[HandoffInfo], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        for info in found:
            for hook in tuple(self._hooks):
                await _call(hook, info)

    async def stop(self, grace_s: float) -> None:
        """Let the hooks that are under way end within `grace_s`; the rest is left behind."""
        tasks = [*self._last.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _call(hook: Hook, info: HandoffInfo) -> None:
    name = getattr(hook, "__qualname__", type(hook).__name__)
    try:
        async with asyncio.timeout(HOOK_S):
            if inspect.iscoroutinefunction(hook):
                await hook(info)
                return
            answer = await asyncio.to_thread(hook, info)
            if inspect.isawaitable(answer):  # an object whose call is async
                await answer
    except TimeoutError:
        log.error("%s: the hook %s took longer than %.0f s", info.conversation_id, name, HOOK_S)
    except Exception:
        log.exception("%s: the hook %s failed", info.conversation_id, name)
