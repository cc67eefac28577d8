"""The fence at the moment of sending: of an owner who was replaced while it spoke, not a character is shown."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from handoffs.router import CustomerMessage, Person, Router
from sessions.connect import Backend
from sessions.keys import Keys
from sessions.live import Live
from sessions.model import Ephemeral, Event
from sessions.store import Store
from tests.faults.streaming_model import StreamingModel
from tests.handoffs.desks import router_for, says, script, shop
from tests.support import wait_until

MOMENTS = 200
AT_ONCE = 10  # conversations under way together
LENGTH = 90  # characters of an answer: about 0.25 s, six flushes
SPAN = LENGTH + 20  # some moments lie after the end, around the commit
ANN = Person("ann", "Ann")
END = Ephemeral("typing", {"by": {"kind": "customer"}, "on": False})  # the last thing that a watcher waits for


class Watcher:
    """A customer's screen: everything that the conversation's channel showed, in its order."""

    def __init__(self, live: Live, conversation_id: str) -> None:
        self.seen: list[Event | Ephemeral] = []
        self._live = live
        self._conversation_id = conversation_id
        self._ready = asyncio.Event()

    async def __aenter__(self) -> Watcher:
        self._task = asyncio.create_task(self._watch())
        await self._ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        async with self._live.follow(self._conversation_id) as feed:
            self._ready.set()
            async for item in feed:
                self.seen.append(item)
                if item == END:
                    return

    async def all(self, store: Store) -> list[Event | Ephemeral]:
        """Everything up to now: the channel keeps its order, so what was sent before the end mark is seen before it."""
        await store.publish(self._conversation_id, END)
        await self._task
        return self.seen


def pieces(seen: list[Event | Ephemeral], of: str | None = None) -> list[Ephemeral]:
    """The pieces of drafts, of one message or of all."""
    found = [item for item in seen if isinstance(item, Ephemeral) and item.type == "msg.delta"]
    return [piece for piece in found if of is None or piece.data["mid"] == of]


def events(seen: list[Event | Ephemeral], type_: str) -> list[Event]:
    return [item for item in seen if isinstance(item, Event) and item.type == type_]


def after(seen: list[Event | Ephemeral], what: Callable[[Event | Ephemeral], bool]) -> list[Event | Ephemeral]:
    """What was shown after the first item that is `what`; nothing when there is none."""
    places = [place for place, item in enumerate(seen) if what(item)]
    return seen[places[0] + 1 :] if places else []


def check_drafts(seen: list[Event | Ephemeral]) -> None:
    """Each draft became exactly one message that begins with what was shown, or was taken back; then nothing of it."""
    created = {event.data["id"]: event for event in events(seen, "msg.created")}
    retracted = {event.data["id"]: event for event in events(seen, "msg.retracted")}
    assert not created.keys() & retracted.keys()
    for message_id in {piece.data["mid"] for piece in pieces(seen)}:
        assert (message_id in created) != (message_id in retracted), f"draft {message_id} was left behind"
        shown = "".join(piece.data["d"] for piece in pieces(seen, message_id))
        assert created[message_id].data["text"].startswith(shown) if message_id in created else shown
        end = after(seen, lambda item: isinstance(item, Event) and item.data.get("id") == message_id)  # noqa: B023
        assert pieces(end, message_id) == [], f"pieces of {message_id} after its end"


async def in_turns(work: Callable[[int], Coroutine[Any, Any, None]], count: int) -> None:
    """Run `work(0)` to `work(count - 1)`, some at a time; the first failure ends it."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(number))


async def test_takeover_at_random_moments_lets_no_character_through(live: Live, store: Store, tmp_path: Path) -> None:
    """Two hundred takeovers at random characters, half of them in another process: after owner.changed the agent is
    silent, its text is not stored, and every draft became a message before or was taken back."""
    rnd = random.Random(20_261_130)  # noqa: S311  # a test repeats its moments
    moments = [(rnd.randrange(SPAN), rnd.random() * 0.04, rnd.random() < 0.5) for _ in range(MOMENTS)]
    outcomes: Counter[str] = Counter()
    other = Live(store.backend, store)
    await other.start()

    async def strike(number: int) -> None:
        characters, delay, elsewhere = moments[number]
        conversation_id = f"c_{secrets.token_hex(6)}"
        model = StreamingModel("".join(chr(97 + n % 26) for n in range(LENGTH)))
        router = router_for(store, live, shop(), {"triage": model}, tmp_path)
        person_at = router_for(Store(store.backend), other, shop(), {}, tmp_path) if elsewhere else router
        async with Watcher(live, conversation_id) as watcher:
            mark = model.reached(characters)
            await router.receive(conversation_id, CustomerMessage("m1", "hello"))
            await mark.wait()
            await asyncio.sleep(delay)  # anywhere between two flushes; the router does not wait for us
            await person_at.take(conversation_id, person=ANN)
            await wait_until("the turn ends", lambda: router.running == 0)
            seen = await watcher.all(store)

        rest = after(seen, lambda item: isinstance(item, Event) and item.owner_to == "human:ann")
        assert pieces(rest) == [], "stray characters after owner.changed"
        assert [item for item in rest if isinstance(item, Event) and item.by.startswith("ai:")] == []
        check_drafts(seen)
        answered = any(event.by == "ai:triage" for event in events(seen, "msg.created"))
        shown = "with a draft" if pieces(seen) else "unseen"
        outcomes["answered before" if answered else f"stopped {shown}"] += 1
        assert (await store.get(conversation_id)).waiting == (0 if answered else 1)

    await in_turns(strike, MOMENTS)
    await other.stop()

    assert sum(outcomes.values()) == MOMENTS
    assert outcomes["stopped with a draft"] >= MOMENTS // 3, outcomes
    assert outcomes["answered before"] > 0, outcomes


async def test_second_worker_after_the_lease_silences_the_first(
    live: Live, store: Store, backend: Backend, tmp_path: Path
) -> None:
    """The lease ends at a random character and another worker claims: from its first sign on, nothing of the first one
    is shown or stored, and the message has one answer."""
    rnd = random.Random(20_261_201)  # noqa: S311  # a test repeats its moments
    moments = [(rnd.randrange(LENGTH), rnd.random() * 0.04) for _ in range(MOMENTS)]
    outcomes: Counter[str] = Counter()
    other = Live(backend, store)
    await other.start()

    async def strike(number: int) -> None:
        characters, delay = moments[number]
        conversation_id = f"c_{secrets.token_hex(6)}"
        first = StreamingModel("a" * LENGTH)
        one = router_for(Store(backend), live, shop(), {"triage": first}, tmp_path)
        two = router_for(Store(backend), other, shop(), {"triage": script([says("b" * LENGTH)])}, tmp_path)
        async with Watcher(live, conversation_id) as watcher:
            mark = first.reached(characters)
            await one.receive(conversation_id, CustomerMessage("m1", "hello"))
            await mark.wait()
            await asyncio.sleep(delay)  # anywhere between two flushes
            await end_lease(backend, conversation_id)
            await two._claim(conversation_id)
            await wait_until("both turns end", lambda: one.running + two.running == 0)
            seen = await watcher.all(store)

        created = [event.data["text"][0] for event in events(seen, "msg.created") if event.by == "ai:triage"]
        assert created in (["a"], ["b"])
        assert first.calls == 1
        check_drafts(seen)
        retracted = after(seen, lambda item: isinstance(item, Event) and item.type == "msg.retracted")
        assert "a" not in "".join(piece.data["d"] for piece in pieces(retracted))
        outcomes[created[0]] += 1

    await in_turns(strike, MOMENTS)
    await other.stop()

    assert outcomes["b"] >= MOMENTS // 2, outcomes


async def end_lease(backend: Backend, conversation_id: str) -> None:
    """A frozen process renews nothing, and time goes by: what Redis holds then."""
    await backend.cmd.hset(Keys.of(conversation_id).own, "lease", "1")


async def test_screen_that_reads_late_shows_no_piece_of_a_draft_that_was_taken_back(
    live: Live, store: Store, conversation_id: str, tmp_path: Path
) -> None:
    """Pieces that waited for a slow reader while the log moved on are older than what the log says of them."""
    model = StreamingModel("a" * LENGTH)
    router: Router = router_for(store, live, shop(), {"triage": model}, tmp_path)
    await router.receive(conversation_id, CustomerMessage("m1", "hello"))

    async with live.follow(conversation_id) as feed:  # subscribed; not one item is read yet
        await model.reached(LENGTH // 2).wait()
        await router.take(conversation_id, person=ANN)
        await wait_until("the turn ends", lambda: router.running == 0)
        await store.publish(conversation_id, END)
        seen: list[Event | Ephemeral] = []
        async for item in feed:
            seen.append(item)
            if item == END:
                break

    assert events(seen, "msg.retracted")
    assert pieces(after(seen, lambda item: isinstance(item, Event) and item.type == "msg.retracted")) == []
