"""What a customer is shown while owners change: drafts of a stale owner stop at once and never become history."""

from __future__ import annotations

import asyncio
from pathlib import Path

from handoffs.router import CustomerMessage, Person
from sessions.live import Live
from sessions.model import Ephemeral, Event, Owner
from sessions.store import Store
from tests.handoffs.desks import router_for, says, script, shop
from tests.handoffs.gated_model import GatedModel
from tests.support import wait_until

ANN = Person("ann", "Ann")
LONG = "This answer is long enough to be stopped in the middle of it. " * 4


class Watcher:
    """Collects what the conversation's channel shows, in order."""

    def __init__(self, live: Live, conversation_id: str) -> None:
        self.seen: list[Event | Ephemeral] = []
        self._live = live
        self._conversation_id = conversation_id
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    async def __aenter__(self) -> Watcher:
        self._task = asyncio.create_task(self._watch())
        await self._ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        async with self._live.follow(self._conversation_id) as feed:
            self._ready.set()
            async for item in feed:
                self.seen.append(item)

    @property
    def shown(self) -> str:
        return "".join(i.data["d"] for i in self.seen if isinstance(i, Ephemeral) and i.type == "msg.delta")

    def types(self) -> list[str]:
        return [item.type for item in self.seen]


async def test_streamed_pieces_add_up_to_the_final_message(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """Pieces carry their character offset, in order; the message that is committed begins with what was shown."""
    model = GatedModel(LONG, size=7, hold_after=70)
    router = router_for(store, live, shop(), {"triage": model}, tmp_path)

    async with Watcher(live, conversation_id) as watcher:
        await router.receive(conversation_id, CustomerMessage("m1", "hello"))
        await wait_until("the first pieces are shown", lambda: len(watcher.shown) >= 70)
        draft_id, draft = await store.draft(conversation_id)
        model.gate.set()
        await wait_until("the message is there", lambda: watcher.types()[-1] == "msg.created" and router.running == 0)

    final = next(i for i in watcher.seen if isinstance(i, Event) and i.by == "ai:triage")
    offsets = [i.data["off"] for i in watcher.seen if isinstance(i, Ephemeral)]
    assert final.data["text"] == LONG.strip()
    assert LONG.startswith(watcher.shown)
    assert LONG.startswith(draft)
    assert draft_id == final.data["id"]
    assert offsets == sorted(offsets)
    assert await store.draft(conversation_id) == ("", "")


async def test_takeover_mid_stream_lets_no_character_through(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 10: after a takeover nothing of the agent is shown, its draft is taken back, nothing of it is
    stored.
    """
    model = GatedModel(LONG)
    router = router_for(store, live, shop(), {"triage": model}, tmp_path)

    async with Watcher(live, conversation_id) as watcher:
        await router.receive(conversation_id, CustomerMessage("m1", "hello"))
        await wait_until("a piece is shown", lambda: watcher.shown)
        await router.take(conversation_id, person=ANN)
        model.gate.set()
        await wait_until("the turn ends", lambda: router.running == 0)
        await wait_until("the takeover is seen", lambda: "handoff.completed" in watcher.types())

    assert watcher.types()[-3:] == ["msg.retracted", "owner.changed", "handoff.completed"]
    assert watcher.seen[-2].owner_to == "human:ann"  # type: ignore[union-attr]  # types() just said that it is an event
    conversation = await store.get(conversation_id)
    assert (conversation.owner, conversation.waiting) == (Owner.human("ann"), 1)
    assert await store.history(conversation_id, "triage") == ()


async def test_takeover_by_another_process_stops_the_turn_here(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The process that runs the turn hears of a takeover made elsewhere and stops its model without waiting for it."""
    model = GatedModel(LONG)
    router = router_for(store, live, shop(), {"triage": model}, tmp_path)
    elsewhere = router_for(Store(store.backend), live, shop(), {}, tmp_path)
    await router.receive(conversation_id, CustomerMessage("m1", "hello"))
    await model.holding.wait()

    await elsewhere.take(conversation_id, person=ANN)

    await wait_until("the turn ends although the model hangs", lambda: router.running == 0)
    assert not model.gate.is_set()


async def test_turn_of_a_dead_worker_is_taken_up_by_another(
    live: Live, store: Store, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.4: A worker that stops renewing loses its turn after the lease; the other one answers; the
    late answer is fenced.
    """
    dead_store = Store(store.backend, lease_ms=300)
    frozen = GatedModel(LONG)
    dead = router_for(dead_store, live, shop(), {"triage": frozen}, tmp_path)
    receipt = await dead.receive(conversation_id, CustomerMessage("m1", "hello"))
    await frozen.holding.wait()
    turn = dead._turns[conversation_id]

    async def asleep() -> None:
        """A frozen process renews nothing."""

    turn.verify = asleep  # type: ignore[method-assign]
    alive = router_for(Store(store.backend), live, shop(), {"triage": script([says("I am here.")])}, tmp_path)
    await alive.start()

    async def answered() -> bool:
        return any(e.by == "ai:triage" and e.type == "msg.created" for e in await store.read(conversation_id))

    await wait_until("the living worker answers", answered)
    frozen.gate.set()
    await wait_until("the frozen turn ends", lambda: dead.running == 0)
    await alive.stop()

    events = await store.read(conversation_id)
    assert [e.data["text"] for e in events if e.by == "ai:triage"] == ["I am here."]
    assert receipt.grant is not None
    assert events[-1].epoch > receipt.grant.token.epoch


async def test_graceful_stop_gives_unfinished_turns_back(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A drain that runs out of time releases the turn: another worker may claim it at once, the message still waits."""
    model = GatedModel(LONG)
    router = router_for(store, live, shop(), {"triage": model}, tmp_path)
    await router.receive(conversation_id, CustomerMessage("m1", "hello"))
    await model.holding.wait()

    await router.stop(grace_s=0.05)

    conversation = await store.get(conversation_id)
    assert (conversation.lease_until, conversation.waiting, conversation.draft) == (0, 1, "")
    assert (await store.claim(conversation_id)).pending[0].text == "hello"


async def test_gateway_without_work_leaves_the_answer_to_a_worker(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A split gateway only stores and acknowledges; a worker process hears of the message and answers it at once."""
    worker = router_for(
        Store(store.backend), live, shop(), {"triage": script([says("From afar.")])}, tmp_path, sweep_s=60
    )
    gateway = router_for(store, live, shop(), {}, tmp_path, works=False)
    await worker.start()
    await gateway.start()

    receipt = await gateway.receive(conversation_id, CustomerMessage("m1", "hello"))

    async def answered() -> bool:
        return (await store.get(conversation_id)).waiting == 0

    await wait_until("the worker answers", answered)
    assert receipt.grant is None
    assert gateway.running == 0
    await worker.stop()
