"""A Redis that is full, read-only, without replicas, broken, loading or gone, and input that nobody should send.

Each time: a clear error to the caller, nothing acknowledged, nothing half-written, and recovery without a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from handoffs.errors import MessageRejected
from handoffs.router import MAX_TEXT, CustomerMessage, Router
from sessions.connect import Backend, connect
from sessions.errors import InvalidId, StoreError, StoreRefused, StoreUnavailable
from sessions.live import Live
from sessions.model import Ephemeral, Event, Grant, NewEvent, Owner, ValueWrite
from sessions.store import Store
from tests.faults.topologies import DURABLE, Server, free_port, wait_for
from tests.handoffs.desks import router_for, shop
from tests.handoffs.gated_model import GatedModel
from tests.support import wait_until

TRIAGE = Owner.ai("triage")
NOTE = NewEvent("notice", {"text": "n"}, by="system")

Sickness = Callable[[Server], None]


# --- the ways to be sick ----------------------------------------------------------------------------------------------


def full(server: Server) -> None:
    server.do("CONFIG", "SET", "maxmemory", 1024 * 1024)


def emptied(server: Server) -> None:
    server.do("CONFIG", "SET", "maxmemory", 0)


def read_only(server: Server) -> None:
    """A replica whose master cannot be reached keeps its data and takes no writes."""
    server.do("REPLICAOF", "127.0.0.1", free_port())


def writable(server: Server) -> None:
    server.do("REPLICAOF", "NO", "ONE")


def lonely(server: Server) -> None:
    server.do("CONFIG", "SET", "min-replicas-to-write", 1)


def content(server: Server) -> None:
    server.do("CONFIG", "SET", "min-replicas-to-write", 0)


def broken_disk(server: Server) -> None:
    """Snapshots fail: where the file belongs there is a folder."""
    (server.folder / "dump.rdb").mkdir()
    server.do("CONFIG", "SET", "save", "3600 1")
    server.do("BGSAVE")
    wait_for("the snapshot has failed", lambda: server.info()["rdb_last_bgsave_status"] == "err")


def mended_disk(server: Server) -> None:
    (server.folder / "dump.rdb").rmdir()
    server.do("BGSAVE")
    wait_for("the snapshot was written", lambda: server.info()["rdb_last_bgsave_status"] == "ok")


SICK = {
    "full": (full, emptied, "OOM|maxmemory"),
    "read-only": (read_only, writable, "READONLY|read only replica"),
    "without its replicas": (lonely, content, "NOREPLICAS"),
    "with a broken disk": (broken_disk, mended_disk, "MISCONF"),
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A real server of this test alone."""
    one = Server(tmp_path / "redis", DURABLE)
    one.start()
    yield one
    one.kill()


@pytest.fixture
async def backend(server: Server, tmp_path: Path) -> AsyncIterator[Backend]:
    opened = await connect(server.url, data_dir=tmp_path / "data")
    yield opened
    await opened.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No repetitions: what is measured here is the refusal, not how long somebody waits for it to pass."""
    monkeypatch.setattr("sessions.scripts.USUALLY_S", 0.0)
    monkeypatch.setattr("sessions.scripts.PATIENCE_S", {})


def everything(server: Server) -> dict[bytes, tuple[bytes, int]]:
    """Every key of the server with its serialised value and whether it expires, but for readiness' own probe."""
    with Redis(port=server.port) as raw:
        keys = sorted(key for key in raw.scan_iter() if not key.endswith(b":probe"))
        return {key: (raw.dump(key) or b"", int(raw.ttl(key) > 0)) for key in keys}


async def granted(store: Store, conversation_id: str) -> Grant:
    receipt = await store.enqueue(conversation_id, "m1", {"id": "m_1", "text": "hi"}, start=TRIAGE, claim=True)
    assert receipt.grant is not None
    return receipt.grant


def writes(store: Store, grant: Grant) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every kind of write, as its callers make it, on a conversation whose turn is running."""
    cid, token = grant.conversation_id, grant.token
    said = [NewEvent("msg.created", {"id": "m_2", "text": "hello"})]
    item = {"role": "user", "content": "hi"}
    delta = Ephemeral("msg.delta", {"d": "x"})
    return {
        "a new message": lambda: store.enqueue(cid, "m2", {"text": "more"}, start=TRIAGE),
        "a new conversation": lambda: store.enqueue("c_other", "m1", {"text": "hi"}, start=TRIAGE, claim=True),
        "a claim": lambda: store.claim("c_free"),
        "a renewal": lambda: store.renew(cid, token),
        "a release": lambda: store.release(cid, token),
        "an event": lambda: store.append(cid, token, "r0", NOTE),
        "a commit": lambda: store.commit(
            cid,
            token,
            "r1",
            answered=1,
            events=said,
            agent_id="triage",
            items=[item],
            values=[ValueWrite("order", "A-1", 0)],
            meta={"language": "en"},
        ),
        "a transfer": lambda: store.transfer(
            cid, token, "r3", to=Owner.ai("billing"), change={}, before=said, items=[item], seed=[item], go_on=True
        ),
        "a piece of a draft": lambda: store.relay(cid, token, delta, message_id="m_3", piece="x"),
        "a takeover": lambda: store.takeover(cid, "ann", change={}),
        "an offer": lambda: store.offer(cid, token, "o1", to=Owner.queue("support"), valid_ms=60_000),
        "values": lambda: store.set_values(cid, "r4", [ValueWrite("order", "A-2", None)], by="human:ann"),
        "the end": lambda: store.close(cid, by="system"),
    }


# --- it refuses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sickness", SICK)
async def test_every_write_is_refused_whole(backend: Backend, server: Server, impatient: None, sickness: str) -> None:
    """Each kind of write raises StoreRefused with Redis' reason and changes no byte; healthy again, each one works."""
    fall_ill, recover, reason = SICK[sickness]
    store = Store(backend)
    grant = await granted(store, "c_sick")
    await store.enqueue("c_free", "m1", {"text": "hi"}, start=TRIAGE)
    await store.relay("c_sick", grant.token, Ephemeral("msg.delta", {}), message_id="m_2", piece="hel")
    before = await asyncio.to_thread(everything, server)

    await asyncio.to_thread(fall_ill, server)
    for what, write in writes(store, grant).items():
        with pytest.raises(StoreRefused, match=reason):
            await write()
        assert await asyncio.to_thread(everything, server) == before, f"{what} left something behind"
    with pytest.raises(StoreRefused, match=reason):
        await store.ping()
    assert [event.type for event in await store.read("c_sick")] == ["msg.created"]  # what is there can be read

    await asyncio.to_thread(recover, server)
    await store.ping()
    for what in ("a new message", "a new conversation", "a claim", "a renewal", "a commit"):
        await writes(store, grant)[what]()


async def test_a_write_that_frees_memory_goes_through_whole_when_redis_is_full(
    backend: Backend, server: Server, impatient: None
) -> None:
    """Redis looks at its memory before a script's first write only: what begins with a deletion is done to its end."""
    store = Store(backend)
    grant = await granted(store, "c_sick")
    item = {"role": "user", "content": "hi"}
    await store.commit("c_sick", grant.token, "r1", agent_id="triage", items=[item])
    await asyncio.to_thread(full, server)

    await store.commit("c_sick", grant.token, "r2", answered=1, agent_id="triage", drop=-1)

    conversation = await store.get("c_sick")
    assert (conversation.waiting, conversation.lease_until) == (0, 0)
    assert await store.history("c_sick", "triage") == ()
    assert (await store.commit("c_sick", grant.token, "r2", answered=1, agent_id="triage", drop=-1)).duplicate


@pytest.mark.parametrize("sickness", SICK)
async def test_a_turn_that_could_not_be_stored_is_run_again(
    backend: Backend, server: Server, impatient: None, tmp_path: Path, sickness: str
) -> None:
    """Redis falls ill while the model speaks: the answer is not shown as one; healthy again, there is exactly one."""
    fall_ill, recover, reason = SICK[sickness]
    model = GatedModel("Here you are.", hold_after=4)
    async with desk(backend, model, tmp_path, lease_ms=1000) as router:
        await router.receive("c_1", CustomerMessage("m1", "hello"))
        await model.holding.wait()
        await asyncio.to_thread(fall_ill, server)
        model.gate.set()
        await wait_until("the turn has given up", lambda: router.running == 0)
        assert answers(await router.store.read("c_1")) == []
        with pytest.raises(StoreRefused, match=reason):
            await router.receive("c_1", CustomerMessage("m2", "are you there?"))
        with pytest.raises(StoreRefused, match=reason):
            await router.receive("c_2", CustomerMessage("m1", "hello"))

        await asyncio.to_thread(recover, server)
        await wait_until("the customer has the answer", lambda: answered(router.store, "c_1"))
        await wait_until("the turn ends", lambda: router.running == 0)

        log = await router.store.read("c_1")
        assert answers(log) == ["Here you are."]
        assert [event.data["text"] for event in log if event.by == "customer"] == ["hello"]
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
        assert model.calls == 2


# --- it loads, it is gone ---------------------------------------------------------------------------------------------


async def test_a_loading_redis_is_said_so_and_waited_for(
    backend: Backend, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that reads its data after a restart: refused with the reason, and the same message works afterwards."""
    monkeypatch.setattr("sessions.scripts.USUALLY_S", 0.5)
    store = Store(backend)
    await granted(store, "c_1")
    with server.client() as client, client.pipeline(transaction=False) as many:
        for number in range(10_000):
            many.set(f"filler:{number}", "x")
        many.execute()
    server.kill()
    server.options = [*server.options, "--key-load-delay", "300"]  # microseconds: 3 s in all
    await asyncio.to_thread(server.start, loaded=False)
    with pytest.raises(StoreRefused, match="still loading"):
        await store.enqueue("c_1", "m2", {"text": "more"}, start=TRIAGE)
    with pytest.raises(StoreRefused, match="still loading"):
        await store.ping()

    await wait_until("the data is there", lambda: pinged(store), timeout_s=20)
    receipt = await store.enqueue("c_1", "m2", {"text": "more"}, start=TRIAGE)
    assert (receipt.seq, receipt.duplicate) == (2, False)


async def test_a_redis_that_is_gone_is_told_soon_and_found_again(
    backend: Backend, server: Server, tmp_path: Path
) -> None:
    """Killed: StoreUnavailable within seconds, red readiness; back: the same process goes on, nothing was lost."""
    async with desk(backend, GatedModel("Here you are.", hold_after=99), tmp_path) as router:
        await router.receive("c_1", CustomerMessage("m1", "hello"))
        await wait_until("the customer has the answer", lambda: answered(router.store, "c_1"))
        before = await asyncio.to_thread(everything, server)
        server.kill()
        for call in (
            router.receive("c_1", CustomerMessage("m2", "and?")),
            router.store.get("c_1"),
            router.store.ping(),
            router.store.recent(),
        ):
            with pytest.raises(StoreUnavailable, match="does not answer"):
                async with asyncio.timeout(8):
                    await call
        await wait_until("the live reader knows", lambda: not router._live.healthy)

        await asyncio.to_thread(server.start)
        await wait_until("it is ready again", lambda: pinged(router.store))
        await wait_until("the live reader hears again", lambda: router._live.healthy)
        assert await asyncio.to_thread(everything, server) == before
        await router.receive("c_1", CustomerMessage("m2", "and?"))
        await wait_until("the second answer is there", lambda: answered(router.store, "c_1", times=2))


async def test_a_message_that_was_stored_before_the_reply_was_lost_is_a_duplicate(
    server: Server, impatient: None, tmp_path: Path
) -> None:
    """Frozen while the message is on its way: the caller hears no answer; sent again with its id it is stored once."""
    backend = await connect(f"{server.url}?socket_timeout=0.5", data_dir=tmp_path / "data")
    store = Store(backend)
    await store.ping()
    server.freeze()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await store.enqueue("c_1", "m1", {"text": "hi"}, start=TRIAGE)
    server.wake()
    await wait_until("it answers again", lambda: pinged(store))

    receipt = await store.enqueue("c_1", "m1", {"text": "hi"}, start=TRIAGE)

    assert receipt.seq == 1
    assert len(await store.read("c_1")) == 1
    await backend.close()


# --- input that nobody should send ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "  \n ", "x" * (MAX_TEXT + 1), "é" * (MAX_TEXT + 1), "half of a pair: \ud83d"],
    ids=["empty", "blank", "too-long", "too-long-in-utf8", "no-unicode"],
)
async def test_a_bad_text_is_rejected_before_redis(backend: Backend, server: Server, tmp_path: Path, text: str) -> None:
    """MessageRejected names the field and what is allowed, and not even a key appears."""
    async with desk(backend, GatedModel("Here you are.", hold_after=99), tmp_path) as router:
        with pytest.raises(MessageRejected, match="text"):
            await router.receive("c_1", CustomerMessage("m1", text))
    assert await asyncio.to_thread(everything, server) == {}


async def test_the_longest_allowed_text_is_answered(backend: Backend, tmp_path: Path) -> None:
    """8,000 characters of four bytes each are a message like any other, NUL and control characters too."""
    text = "\U0001f600" * (MAX_TEXT - 2) + "\x00\x1b"
    async with desk(backend, GatedModel("Here you are.", hold_after=99), tmp_path) as router:
        await router.receive("c_1", CustomerMessage("m1", text))
        await wait_until("the customer has the answer", lambda: answered(router.store, "c_1"))
        assert (await router.store.read("c_1"))[0].data["text"] == text


BAD_IDS = ["", " ", "a b", "a\nb", "x" * 129, "{slot}", "../x", "日本", "a|b", "\x00", "-a", "a\ud800"]


@pytest.mark.parametrize("bad", BAD_IDS, ids=range(len(BAD_IDS)))
async def test_a_bad_id_is_rejected_before_redis(backend: Backend, server: Server, tmp_path: Path, bad: str) -> None:
    """Conversation ids, message ids and person ids that could break a key are refused by name; no key appears."""
    store = Store(backend)
    async with desk(backend, GatedModel("Here you are.", hold_after=99), tmp_path) as router:
        with pytest.raises(InvalidId, match="conversation_id"):
            await router.receive(bad, CustomerMessage("m1", "hello"))
        with pytest.raises(InvalidId, match="message_id"):
            await router.receive("c_1", CustomerMessage(bad, "hello"))
        with pytest.raises(InvalidId, match="person_id"):
            await store.takeover("c_1", bad, change={})
        for read in (store.get(bad), store.read(bad), store.values(bad), store.draft(bad)):
            with pytest.raises(InvalidId, match="conversation_id"):
                await read
    assert await asyncio.to_thread(everything, server) == {}


# --- helpers ----------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def desk(backend: Backend, model: GatedModel, tmp_path: Path, *, lease_ms: int = 20_000) -> AsyncIterator[Router]:
    """A started router on this backend, whose only agent speaks with this model."""
    store = Store(backend, lease_ms=lease_ms)
    live = Live(backend, store)
    await live.start()
    router = router_for(store, live, shop(), {"triage": model}, tmp_path)
    await router.start()
    try:
        yield router
    finally:
        await router.stop(1)
        await live.stop()


def answers(events: list[Event]) -> list[str]:
    return [event.data["text"] for event in events if event.type == "msg.created" and event.by.startswith("ai:")]


async def answered(store: Store, conversation_id: str, times: int = 1) -> bool:
    with contextlib.suppress(StoreError):
        return len(answers(await store.read(conversation_id))) == times
    return False


async def pinged(store: Store) -> bool:
    with contextlib.suppress(StoreError):
        await store.ping()
        return True
    return False
