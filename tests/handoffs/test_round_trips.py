"""Round trips to Redis, counted: deterministic, unlike time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio.connection import AbstractConnection

from handoffs import relay
from handoffs.router import CustomerMessage, Router
from sessions.live import Live
from sessions.store import Store
from tests.handoffs.desks import router_for, says, script, shop, transfer
from tests.support import wait_until


class Sends:
    """How often a connection sent something and waited for the answer."""

    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sends]:
    """Counts around the real connection; a pipeline counts once."""
    found = Sends()
    send = AbstractConnection.send_packed_command

    async def counted(connection: AbstractConnection, *args: Any, **kwargs: Any) -> None:
        if b"fd:beat:" not in repr(args).encode():  # the process listens to itself, whatever it does
            found.count += 1
        await send(connection, *args, **kwargs)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", counted)
    monkeypatch.setattr(relay, "FLUSH_S", 3600)  # a draft is a round trip of its own, and a busy machine shows one
    yield found


async def turn(router: Router, conversation_id: str, message_id: str) -> None:
    await router.receive(conversation_id, CustomerMessage(message_id, "hello there"))
    await wait_until("the turn ends", lambda: router.running == 0)


async def test_plain_turn_takes_two_round_trips(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, sends: Sends
) -> None:
    """Store + claim + load, then commit + publish: two, however many events and items there are."""
    router = router_for(store, live, shop(), {"triage": script([says("one")], [says("two")])}, tmp_path)
    await turn(router, conversation_id, "m1")  # scripts and connections are loaded by then

    sends.count = 0
    await turn(router, conversation_id, "m2")

    assert sends.count == 2


async def test_transfer_adds_one_round_trip(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, sends: Sends
) -> None:
    """handoffs.md 2.4: A turn with one transfer takes three."""
    models = {
        "triage": script([says("hi")], [transfer("billing")]),
        "billing": script([says("Billing here.")], [transfer("orders")]),
        "orders": script([says("Orders here.")]),
    }
    router = router_for(store, live, shop(), models, tmp_path)
    await turn(router, conversation_id, "m1")
    await turn(router, conversation_id, "m2")  # the transfer script is loaded by then

    sends.count = 0
    await turn(router, conversation_id, "m3")

    assert sends.count == 3


async def test_split_gateway_and_worker_take_one_more(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, sends: Sends
) -> None:
    """The gateway stores, the worker claims and commits: three, because the wake-up says whose history is needed."""
    model = script([says("one")], [says("two")])
    worker = router_for(Store(store.backend), live, shop(), {"triage": model}, tmp_path, sweep_s=60)
    gateway = router_for(store, live, shop(), {}, tmp_path, works=False)
    await worker.start()

    async def answered(message_id: str) -> None:
        left = model.remaining_steps
        await gateway.receive(conversation_id, CustomerMessage(message_id, "hello there"))
        await wait_until("the worker has answered", lambda: model.remaining_steps < left and worker.running == 0)

    await wait_until("the first sweep is over", lambda: sends.count > 0)
    await answered("m1")  # scripts and connections are loaded by then
    sends.count = 0
    await answered("m2")

    assert sends.count == 3
    await worker.stop()
