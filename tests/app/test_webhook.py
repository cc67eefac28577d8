"""The signed webhook against a real receiver: at least once, in order, through failures, slowness and kill -9."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from app.settings import Settings, SettingsInvalid, load_settings
from app.sinks import Deliveries, NotDelivered
from app.webhook import Webhook, check_address, payload, webhook_id
from app.webhook import delivering as webhook_of_settings
from handoffs.hooks import HandoffInfo
from sessions.connect import Backend
from sessions.live import Live
from sessions.model import Event, NewEvent, Owner, Position
from sessions.store import Store
from tests.app.receiver import SECRET, Receiver, receiving
from tests.handoffs.desks import router_for, says, script, shop, transfer
from tests.handoffs.test_router import ANN, ask
from tests.sessions.test_store import granted
from tests.support import SCALE, wait_until

STEPS = ["handoff.requested", "handoff.accepted", "owner.changed", "handoff.completed"]

# Delivers to the receiver, and does not live to say that it did: the receiver's first answer is the last thing it sees.
DELIVER = """
import asyncio, pathlib, sys
from app.sinks import Deliveries
from app.webhook import Webhook
from sessions.connect import connect
from sessions.store import Store

async def main():
    backend = await connect("embedded://" + sys.argv[1], data_dir=pathlib.Path(sys.argv[1]))
    deliveries = Deliveries(Store(backend), Webhook(sys.argv[2], sys.argv[3]), sweep_s=0.05, pause_s=0.05)
    await deliveries.start()
    await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def delivering(store: Store, url: str, *, timeout_s: float = 10.0) -> AsyncIterator[Deliveries]:
    """One process' deliveries, quick enough for a test."""
    webhook = Webhook(url, SECRET, timeout_s=timeout_s)
    deliveries = Deliveries(store, webhook, sweep_s=0.05, pause_s=0.05)
    await deliveries.start()
    try:
        yield deliveries
    finally:
        await deliveries.stop()
        await webhook.close()


@pytest.fixture
async def receiver(store: Store) -> AsyncIterator[Receiver]:
    """A receiver that takes everything. The sink begins now: what a conversation did before is not delivered."""
    await store.place("webhook", await store.now())
    async with receiving(Receiver()) as running:
        yield running


async def handed_over(store: Store, conversation_id: str, targets: tuple[str, ...] = ("billing",)) -> None:
    """A conversation that goes from owner to owner, with the four records of each handoff."""
    token, owner = (await granted(store, conversation_id)).token, "triage"
    for to in targets:
        details = {"from": owner, "to": to, "reason": "money", "decided_by": "model"}
        before = [NewEvent("handoff.requested", details), NewEvent("handoff.accepted", details)]
        after = [NewEvent("handoff.completed", {**details, "seed": ["what was said"]})]
        owners: Any = {"to": Owner.ai(to), "change": details, "go_on": True}
        moved = await store.transfer(conversation_id, token, f"to:{to}", before=before, after=after, **owners)
        token, owner = moved.token, to


async def test_handoff_of_a_real_turn_arrives_signed(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, receiver: Receiver
) -> None:
    """handoffs.md 2.5: the records come as Standard Webhooks say; the receiver has verified each signature."""
    models = {"triage": script([transfer("billing", reason="a refund", goal="money")]), "billing": script([says("ok")])}
    router = router_for(store, live, shop(), models, tmp_path)

    async with delivering(store, receiver.url):
        await ask(router, conversation_id, "I was charged twice")
        await wait_until("the last step has come", lambda: STEPS[-1] in receiver.steps())

    assert receiver.steps() == STEPS
    done = receiver.taken[-1]["data"]
    assert (done["conversation_id"], done["from"], done["to"]) == (conversation_id, "triage", "billing")
    assert (done["reason"], done["brief"], done["decided_by"]) == ("a refund", {"goal": "money"}, "model")
    assert done["seed_size"] > 0 and "seed" not in done
    assert len({headers["webhook-id"] for headers in receiver.headers}) == 4


async def test_own_handoff_of_the_process_does_not_wait_for_the_next_look(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, receiver: Receiver
) -> None:
    """handoffs.md 2.5: the hooks say what is new, so it arrives although nobody looks for an hour."""
    models = {"triage": script([transfer("billing")]), "billing": script([says("ok")])}
    router = router_for(store, live, shop(), models, tmp_path)
    webhook = Webhook(receiver.url, SECRET)
    deliveries = Deliveries(store, webhook, sweep_s=3600)

    @router.hooks.on_handoff
    async def hear(info: HandoffInfo) -> None:
        deliveries.news_of(info.conversation_id)

    await deliveries.start()
    await wait_until("the first look is over", lambda: deliveries._begun and not deliveries._busy)
    await ask(router, conversation_id, "I was charged twice")
    await wait_until("the last step has come", lambda: STEPS[-1] in receiver.steps())

    assert receiver.steps() == STEPS
    await deliveries.stop()
    await webhook.close()


async def test_takeover_and_hand_back_arrive_step_by_step(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, receiver: Receiver
) -> None:
    """handoffs.md 2.5: the webhook hears what people do as it hears what agents do."""
    router = router_for(store, live, shop(), {"triage": script([says("Hello.")])}, tmp_path)
    await ask(router, conversation_id, "hello")

    async with delivering(store, receiver.url):
        taken = await router.take(conversation_id, person=ANN)
        await router.hand_back(conversation_id, taken.token, ANN, "billing", "paid twice")
        await wait_until("the last step has come", lambda: receiver.steps().count(STEPS[-1]) == 2)

    assert receiver.steps() == [*STEPS, *STEPS]
    parts = [(body["data"]["from"], body["data"]["to"]) for body in receiver.taken if body["type"] == STEPS[-1]]
    assert parts == [("triage", "ann"), ("ann", "billing")]


async def test_desk_with_the_two_settings_delivers(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, receiver: Receiver
) -> None:
    """handoffs.md 2.5: URL and secret are all that an operator sets; the desk does the rest while it is open."""
    models = {"triage": script([transfer("billing")]), "billing": script([says("ok")])}
    router = router_for(store, live, shop(), models, tmp_path)
    settings = Settings(data_dir=tmp_path, webhook_url=SecretStr(receiver.url), webhook_secret=SecretStr(SECRET))

    async with webhook_of_settings(settings, store, router.hooks):
        await ask(router, conversation_id, "I was charged twice")
        await wait_until("the last step has come", lambda: STEPS[-1] in receiver.steps())

    assert receiver.steps() == STEPS


async def test_failed_delivery_comes_again_under_the_same_id_and_keeps_the_order(
    store: Store, conversation_id: str, receiver: Receiver
) -> None:
    """handoffs.md 2.5: every second attempt is answered with 500; all come, once each, in the order of the log."""
    attempts: list[str] = []

    def every_second(body: dict[str, Any]) -> int:
        attempts.append(body["type"])
        return 500 if len(attempts) % 2 else 204

    receiver.answer = every_second
    async with delivering(store, receiver.url):
        await handed_over(store, conversation_id, ("billing", "orders"))
        await wait_until("all have come", lambda: len(receiver.taken) == 8)

    assert receiver.steps() == [*STEPS, *STEPS]
    ids = [headers["webhook-id"] for headers in receiver.headers]
    assert ids[0::2] == ids[1::2] and len(set(ids)) == 8


async def test_receiver_that_is_down_gets_everything_when_it_is_back(
    store: Store, conversation_id: str, receiver: Receiver
) -> None:
    """handoffs.md 2.5: nobody listens while handoffs happen; the log keeps what is not delivered."""
    gone = Receiver(port=receiver.port)
    async with receiving(Receiver()) as briefly:
        gone.port = briefly.port
    async with delivering(store, gone.url):
        await handed_over(store, conversation_id)
        await wait_until("the cursor stands in front of what failed", lambda: _in_front(store, conversation_id))
        async with receiving(gone):
            await wait_until("all have come", lambda: len(gone.taken) == 4)

    assert gone.steps() == STEPS


async def _in_front(store: Store, conversation_id: str) -> bool:
    return (await store.cursor(conversation_id, "webhook")).seq == 1


async def test_slow_receiver_holds_up_its_own_conversation_only(
    store: Store, conversation_id: str, receiver: Receiver
) -> None:
    """handoffs.md 2.5: one conversation's answers never come; another one's events arrive meanwhile."""
    slow, quick = f"{conversation_id}_slow", f"{conversation_id}_quick"
    receiver.answer = lambda body: 0 if body["data"]["conversation_id"] == slow else 204

    async with delivering(store, receiver.url, timeout_s=30):
        await handed_over(store, slow)
        await wait_until("the slow one is being delivered", lambda: receiver.headers)
        await handed_over(store, quick)
        await wait_until("the quick one has come", lambda: len(receiver.steps(quick)) == 4)

    assert receiver.steps(slow) == []


async def test_receiver_that_never_answers_is_given_up_in_time_and_tried_again(
    store: Store, conversation_id: str, receiver: Receiver
) -> None:
    """handoffs.md 2.5: a delivery has a limit for the whole request; what comes after it works."""
    first = iter([0])
    receiver.answer = lambda body: next(first, 204)

    async with delivering(store, receiver.url, timeout_s=0.3 * SCALE):
        await handed_over(store, conversation_id)
        await wait_until("all have come", lambda: len(receiver.taken) == 4)

    assert receiver.steps() == STEPS


async def test_killed_process_loses_nothing(
    store: Store, backend: Backend, valkey_dir: Path, conversation_id: str, receiver: Receiver
) -> None:
    """handoffs.md 2.5: kill -9 between a delivery and its note: another process takes over and delivers the rest.

    What was under way comes twice, under the same id.
    """
    if backend.kind != "embedded":
        pytest.skip("the process shares the embedded server")
    reached = asyncio.Event()

    def hold_the_second(body: dict[str, Any]) -> int:
        if body["type"] == "handoff.accepted" and not reached.is_set():
            reached.set()
            return 0
        return 204

    receiver.answer = hold_the_second
    await handed_over(store, conversation_id)
    command = [sys.executable, "-c", DELIVER, str(valkey_dir), receiver.url, SECRET]
    process = await asyncio.create_subprocess_exec(*command)
    await asyncio.wait_for(reached.wait(), 60 * SCALE)

    process.send_signal(signal.SIGKILL)
    await process.wait()
    async with delivering(store, receiver.url):
        await wait_until("all have come", lambda: len(receiver.taken) == 4, timeout_s=60)

    assert receiver.steps() == STEPS
    ids = [headers["webhook-id"] for headers in receiver.headers]
    assert ids[1] == ids[2] and len(set(ids)) == 4


async def test_only_one_process_delivers(store: Store, conversation_id: str, receiver: Receiver) -> None:
    """handoffs.md 2.5: three processes run; each event comes once, and when the one that led stops another goes on."""
    stores = [Store(store.backend) for _ in range(3)]
    async with delivering(stores[1], receiver.url):
        async with delivering(stores[0], receiver.url), delivering(stores[2], receiver.url):
            await handed_over(store, conversation_id)
            end = (await store.read(conversation_id))[-1]
            await wait_until("all have come, and it is noted", lambda: _at(store, conversation_id, end))
        await handed_over(store, f"{conversation_id}_2")
        await wait_until("the rest has come", lambda: len(receiver.taken) >= 8)

    assert receiver.steps(conversation_id) == STEPS and receiver.steps(f"{conversation_id}_2") == STEPS


async def test_what_was_delivered_does_not_come_again_after_a_start(
    store: Store, conversation_id: str, receiver: Receiver
) -> None:
    """handoffs.md 2.5: the cursor in Redis says how far it came; a new process goes on behind it."""
    async with delivering(store, receiver.url):
        await handed_over(store, conversation_id)
        end = (await store.read(conversation_id))[-1]
        await wait_until("all have come, and it is noted", lambda: _at(store, conversation_id, end))

    async with delivering(Store(store.backend), receiver.url):
        await handed_over(store, f"{conversation_id}_2")
        await wait_until("the next have come", lambda: len(receiver.taken) >= 8)

    assert receiver.steps(conversation_id) == STEPS


async def _at(store: Store, conversation_id: str, event: Event) -> bool:
    return await store.cursor(conversation_id, "webhook") == Position(event.epoch, event.seq)


async def test_history_from_before_the_webhook_is_not_sent(store: Store, conversation_id: str) -> None:
    """handoffs.md 2.5: who sets a webhook up gets what happens from then on."""
    await handed_over(store, conversation_id)
    async with receiving(Receiver()) as receiver, delivering(store, receiver.url):
        await wait_until("the sink has begun", lambda: store.backend.cmd.exists("fd:sink:webhook"))
        await wait_until("a moment has passed", lambda: _later(store, conversation_id))
        await handed_over(store, f"{conversation_id}_2")
        await wait_until("the new ones have come", lambda: len(receiver.taken) == 4)

    assert receiver.steps(conversation_id) == []


async def _later(store: Store, conversation_id: str) -> bool:
    return await store.now() > (await store.read(conversation_id))[-1].at


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirect_is_a_failure_and_is_not_followed(
    store: Store, conversation_id: str, receiver: Receiver, status: int
) -> None:
    """handoffs.md 2.5: a receiver cannot send the desk's request elsewhere."""
    async with receiving(Receiver()) as elsewhere:
        receiver.extra = f"location: {elsewhere.url}\r\n"
        receiver.answer = lambda body: status
        async with delivering(store, receiver.url):
            await handed_over(store, conversation_id)
            await wait_until("it was tried", lambda: receiver.refused)

    assert elsewhere.paths == []


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "0.0.0.0", "224.0.0.1", "[::ffff:169.254.169.254]"])  # noqa: S104
async def test_address_where_no_receiver_may_be_is_refused(host: str) -> None:
    """handoffs.md 2.5: the metadata service of a cloud, among others, is never asked."""
    with pytest.raises(NotDelivered, match="where no receiver may be"):
        await check_address(f"http://{host}/latest/meta-data")


async def test_secret_is_never_in_the_log(
    store: Store, conversation_id: str, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """handoffs.md 2.5: failures are told with the reason; neither secret nor query of the address is."""
    caplog.set_level(logging.DEBUG, logger="frontdesk")
    receiver.answer = lambda body: 503
    async with delivering(store, f"{receiver.url}?key=hunter2"):
        await handed_over(store, conversation_id)
        await wait_until("it is in the log", lambda: "the answer was 503" in caplog.text)

    assert SECRET not in caplog.text and SECRET[6:] not in caplog.text
    assert "hunter2" not in "".join(r.getMessage() for r in caplog.records if r.name.startswith("frontdesk"))


def test_every_event_has_an_id_of_its_own() -> None:
    """handoffs.md 2.5: the same for every attempt, another one for another event or conversation."""
    one = Event(2, 17, "handoff.completed", 0, "ai:triage", {})
    assert webhook_id("c_1", one) == webhook_id("c_1", one)
    assert len({webhook_id("c_1", one), webhook_id("c_2", one), webhook_id("c_1", Event(3, 17, "x", 0, "", {}))}) == 3


def test_what_was_said_to_agents_stays_inside() -> None:
    """handoffs.md 2.5: the seed is counted, not sent; nor is any other field that nobody thought of."""
    event = Event(2, 17, "handoff.completed", 0, "ai:triage", {"to": "billing", "seed": ["abc", "de"], "inner": "x"})
    data = payload("c_1", event)["data"]
    assert (data["seed_size"], "seed" in data, "inner" in data) == (5, False, False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"webhook_url": "https://a.example/x"}, "need each other"),
        ({"webhook_secret": SECRET}, "need each other"),
        ({"webhook_url": "ftp://a.example", "webhook_secret": SECRET}, "FRONTDESK_WEBHOOK_URL: must be"),
        ({"webhook_url": "https://u:p@a.example", "webhook_secret": SECRET}, "without user and password"),
        ({"webhook_url": "https://a.example", "webhook_secret": "whsec_c2hvcnQ="}, "at least 24 random bytes"),
        ({"webhook_url": "https://a.example", "webhook_secret": "secret"}, "at least 24 random bytes"),
    ],
)
def test_webhook_that_cannot_work_is_refused_at_the_start(given: dict[str, str], why: str) -> None:
    """handoffs.md 2.5: the message names the setting and what is allowed, and never the secret."""
    with pytest.raises(SettingsInvalid) as refused:
        load_settings(None, **given)
    assert why in str(refused.value)
    assert given.get("webhook_secret", "-") not in str(refused.value).replace("whsec_ and", "")
