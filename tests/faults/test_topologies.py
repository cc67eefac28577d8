"""Frontdesk on the servers that people run: what a failover costs, what a woken master may do, what the ACL allows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis.exceptions import NoPermissionError

from handoffs.router import CustomerMessage, Person, Router
from sessions.connect import Backend, connect
from sessions.errors import StaleOwner, StoreError, StoreRefused, StoreUnavailable
from sessions.keys import Keys
from sessions.live import Live
from sessions.model import Ephemeral, Event, NewEvent, Owner, Token
from sessions.store import Store
from tests.conftest import acl_rules
from tests.faults.topologies import (
    SOON_MS,
    Server,
    Topology,
    cluster,
    debian_redis,
    master_of,
    one_server,
    sentinel_set,
    tls_server,
    wait_for,
)
from tests.handoffs.desks import router_for, says, script, shop, transfer
from tests.handoffs.gated_model import GatedModel
from tests.support import wait_until

TRIAGE = Owner.ai("triage")
LEASE_MS = 2000  # short, so that a turn that a failover cut off is taken up soon

Open = Callable[[str], Awaitable[Backend]]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Topology]]:
    """The Sentinel set and the cluster of this module, started once, for tests that leave them broken."""
    made: dict[str, Topology] = {}
    with ExitStack() as stack:

        def get(kind: str) -> Topology:
            if kind not in made:
                folder = tmp_path_factory.mktemp(kind)
                made[kind] = stack.enter_context(
                    cluster(folder, node_timeout_ms=2 * SOON_MS)
                    if kind == "cluster"
                    else sentinel_set(folder, down_after_ms=SOON_MS)
                )
            return made[kind]

        yield get


@pytest.fixture
def whole(standing: Callable[[str], Topology]) -> Callable[[str], Topology]:
    """The same, whole again."""

    def get(kind: str) -> Topology:
        topology = standing(kind)
        topology.heal()
        return topology

    return get


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """`connect` whose backends are closed afterwards."""
    backends: list[Backend] = []

    async def open_(url: str) -> Backend:
        backends.append(await connect(url, data_dir=tmp_path / "data"))
        return backends[-1]

    yield open_
    for backend in backends:
        await backend.close()


def answers(events: list[Event]) -> list[str]:
    return [event.data["text"] for event in events if event.type == "msg.created" and event.by.startswith("ai:")]


@dataclass
class Desk:
    """A whole Frontdesk process but for its doors, and customers that repeat what was not acknowledged."""

    store: Store
    live: Live
    router: Router
    acknowledged: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    seen_red: set[str] = field(default_factory=set)

    async def ready(self) -> bool:
        """What /readyz asks; notes what was red."""
        if not self.live.healthy:
            self.seen_red.add("live")
        try:
            await self.store.ping()
        except StoreError:
            self.seen_red.add("store")
            return False
        return self.live.healthy

    async def customer(self, conversation_id: str) -> None:
        """Send one message, again and again with the same id until it is acknowledged, as the widget does."""
        while True:
            try:
                await self.router.receive(conversation_id, CustomerMessage("m1", "hello there"))
            except StoreError as error:
                self.errors.append(error)
                await asyncio.sleep(0.1)
            else:
                self.acknowledged.append(conversation_id)
                return


@contextlib.asynccontextmanager
async def desk_on(backend: Backend, tmp_path: Path) -> AsyncIterator[Desk]:
    store = Store(backend, lease_ms=LEASE_MS)
    live = Live(backend, store)
    await live.start()
    router = router_for(store, live, shop(), {"triage": GatedModel("Here you are.", hold_after=99)}, tmp_path)
    await router.start()
    try:
        yield Desk(store, live, router)
    finally:
        await router.stop(1)
        await live.stop()


# --- a master dies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sentinel", "cluster"])
async def test_every_acknowledged_message_is_answered_once_when_the_master_dies(
    whole: Callable[[str], Topology], opened: Open, tmp_path: Path, kind: str
) -> None:
    """kill -9 of a master among 90 customers: clear errors, red readiness, then one answer each, without a restart."""
    topology = whole(kind)
    async with desk_on(await opened(topology.url), tmp_path) as desk:
        assert await desk.ready()
        customers = []
        for number in range(90):
            customers.append(asyncio.create_task(desk.customer(f"c_{number}")))
            if number == 30:
                victim = topology.masters()[0]
                await asyncio.to_thread(victim.kill)
            await desk.ready()
            await asyncio.sleep(0.03)  # customers come one after the other
        await asyncio.gather(*customers)
        await wait_until("this process is ready again, without a restart", desk.ready, timeout_s=20)

        async def answered() -> bool:
            logs = [await desk.store.read(conversation_id) for conversation_id in desk.acknowledged]
            return all(answers(log) for log in logs)

        await wait_until("every customer has an answer", answered, timeout_s=20)
        await wait_until("no turn runs any more", lambda: desk.router.running == 0)
        for conversation_id in desk.acknowledged:
            log = await desk.store.read(conversation_id)
            assert [event.seq for event in log] == list(range(1, len(log) + 1))
            assert [event.type for event in log if event.by == "customer"] == ["msg.created"]
            assert answers(log) == ["Here you are."]
    assert len(desk.acknowledged) == 90
    assert desk.errors and all(isinstance(error, (StoreUnavailable, StoreRefused)) for error in desk.errors)
    assert "store" in desk.seen_red
    if kind == "sentinel":  # in a cluster another node may carry the subscription
        assert "live" in desk.seen_red


async def test_an_idle_process_finds_the_new_master_of_a_shard(whole: Callable[[str], Topology], opened: Open) -> None:
    """A process that only sweeps and reads recovers as well: a failed pipeline looks the cluster up again."""
    topology = whole("cluster")
    store = Store(await opened(topology.url))
    await store.enqueue("c_idle", "m1", {"text": "hi"}, start=TRIAGE)
    assert await store.due() == ["c_idle"]
    slot = topology.data[0].do("CLUSTER", "KEYSLOT", Keys.of("c_idle").own)
    victim = next(server for server in topology.masters() if server.do("CLUSTER", "COUNTKEYSINSLOT", slot))
    await asyncio.to_thread(victim.kill)

    async def swept() -> bool:
        with contextlib.suppress(StoreError):
            return "c_idle" in await store.due()
        return False

    await wait_until("the sweep reaches the promoted replica", swept, timeout_s=20)


# --- a master freezes, is replaced, and wakes up ----------------------------------------------------------------------


def successor(topology: Topology, old: Server) -> Server:
    """The new master, once all Sentinels name it and the other replica follows it."""
    others = [server for server in topology.data if server is not old]

    def found() -> Server | None:
        masters = [server for server in others if server.info()["role"] == "master"]
        if len(masters) != 1:
            return None
        if any(master_of(sentinel)["port"] != masters[0].port for sentinel in topology.sentinels):
            return None
        follows = [server for server in others if server.in_sync() and server.info()["master_port"] == masters[0].port]
        return masters[0] if len(follows) == len(others) - 1 else None

    new: Server = wait_for("a replica was promoted and the other one follows it", found)
    return new


async def test_a_woken_master_accepts_nothing_and_only_one_owner_is_left(
    whole: Callable[[str], Topology], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old owner's token on the woken old master is refused (NOREPLICAS), on the new master it is stale."""
    monkeypatch.setattr("sessions.scripts.PATIENCE_S", {})
    monkeypatch.setattr("sessions.scripts.USUALLY_S", 0.0)
    topology = whole("sentinel")
    old = topology.masters()[0]
    there = Store(await opened(old.url), lease_ms=1)  # somebody who stays connected to the old master
    receipt = await there.enqueue("c_two", "m1", {"text": "hi"}, start=TRIAGE, claim=True)
    assert receipt.grant is not None
    first = receipt.grant.token
    await asyncio.to_thread(wait_for, "the replicas have it", lambda: old.do("WAIT", 2, 1000) == 2)
    old.freeze()
    new = await asyncio.to_thread(successor, topology, old)
    here = Store(await opened(topology.url))
    second = (await here.claim("c_two", hint="triage")).token

    old.wake()
    await asyncio.to_thread(wait_for, "the old master is awake", lambda: old.do("PING"))
    assert old.info()["role"] == "master"
    late = NewEvent("msg.created", {"text": "from the old owner"})
    with pytest.raises(StoreRefused, match="NOREPLICAS"):
        await there.commit("c_two", first, "turn:1", answered=1, events=[late])
    with pytest.raises(StoreRefused, match="NOREPLICAS"):
        await there.renew("c_two", first)
    with pytest.raises(StaleOwner):
        await here.commit("c_two", first, "turn:1", answered=1, events=[late])
    await here.commit("c_two", second, "turn:2", answered=1, events=[NewEvent("msg.created", {"text": "one"})])
    with pytest.raises(StaleOwner):  # the new token means nothing on the old side
        await there.renew("c_two", second)

    await asyncio.to_thread(topology.repair)
    assert new.info()["role"] == "master"
    logs = [server.do("XRANGE", Keys.of("c_two").log, "-", "+") for server in topology.data]
    assert logs[0] == logs[1] == logs[2]
    assert answers(await here.read("c_two")) == ["one"]


async def test_a_woken_master_is_not_believed_by_those_who_stayed_connected(
    whole: Callable[[str], Topology], opened: Open
) -> None:
    """A woken master without min-replicas takes writes for 10 s; no call of ours believes it, neither old nor new."""
    topology = whole("sentinel")
    for server in topology.data:
        server.do("CONFIG", "SET", "min-replicas-to-write", 0)
    old = topology.masters()[0]
    mine = Store(await opened(topology.url), lease_ms=1)
    grants = []
    for number in range(20):
        receipt = await mine.enqueue(f"woken_{number}", "m1", {"text": "hi"}, start=TRIAGE, claim=True)
        assert receipt.grant is not None
        grants.append(receipt.grant)
    await asyncio.gather(*(mine.now() for _ in range(20)))  # twenty connections to the old master
    await asyncio.to_thread(wait_for, "the replicas have it", lambda: old.do("WAIT", 2, 1000) == 2)
    text = NewEvent("msg.created", {"text": "from the old owner"})

    async def answer(number: int) -> object:
        grant = grants[number]
        return await mine.commit(grant.conversation_id, grant.token, "turn:1", answered=1, events=[text])

    old.freeze()
    waiting = [asyncio.ensure_future(answer(number)) for number in range(10)]  # sent to it, and not answered
    await asyncio.to_thread(successor, topology, old)
    theirs = Store(await opened(topology.url))
    for grant in grants:
        await theirs.claim(grant.conversation_id, hint="triage")
    old.wake()
    fresh = [asyncio.ensure_future(answer(number)) for number in range(10, 20)]  # over connections that were idle

    results = await asyncio.gather(*waiting, *fresh, return_exceptions=True)

    assert old.do("SET", "proof", "it takes writes") and old.info()["role"] == "master"
    for server in topology.data:
        server.do("CONFIG", "SET", "min-replicas-to-write", 1)
    assert [type(result) for result in results] == [StaleOwner] * 20


async def test_two_masters_never_accept_the_same_token(opened: Open, tmp_path: Path) -> None:
    """Split for good, both sides grant the turn: neither takes the other's token, not even with its own epoch."""
    fast = ("--repl-diskless-sync-delay", "0")
    with (
        one_server(tmp_path / "a", *fast) as a,
        one_server(tmp_path / "b", "--replicaof", f"127.0.0.1 {a.data[0].port}") as b,
    ):
        left = Store(await opened(a.url))
        await left.enqueue("c_split", "m1", {"text": "hi"}, start=TRIAGE)
        await asyncio.to_thread(
            wait_for,
            "the replica has it",
            lambda: b.data[0].in_sync() and b.data[0].do("EXISTS", Keys.of("c_split").own),
        )
        b.data[0].do("REPLICAOF", "NO", "ONE")
        right = Store(await opened(b.url))
        mine, yours = (await left.claim("c_split")).token, (await right.claim("c_split")).token

        for store, own, foreign in ((left, mine, yours), (right, yours, mine)):
            for token in (foreign, Token(own.epoch, foreign.fence), Token(foreign.epoch, own.fence)):
                if token == own:  # both were granted in the same millisecond: only the nonce tells them apart
                    continue
                with pytest.raises(StaleOwner):
                    await store.commit("c_split", token, "turn:1", answered=1)
            await store.commit("c_split", own, "turn:2", answered=1)


# --- a server that is frozen, without anybody to replace it -----------------------------------------------------------


async def test_a_frozen_server_is_noticed_by_the_live_reader(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sockets stay open and nothing comes: the reader hears itself no more and says so; it recovers."""
    monkeypatch.setattr("sessions.live.BEAT_S", 0.1)
    monkeypatch.setattr("sessions.live.SILENT_S", 0.5)
    monkeypatch.setattr("sessions.live.CONNECT_S", 0.5)
    with one_server(tmp_path / "one") as topology:
        backend = await opened(topology.url)
        store = Store(backend)
        live = Live(backend, store)
        await live.start()
        topology.data[0].freeze()
        await wait_until("the reader knows that it is deaf", lambda: not live.healthy)
        topology.data[0].wake()
        await wait_until("it hears again", lambda: live.healthy)
        async with live.follow("c_1") as feed:
            await store.enqueue("c_1", "m1", {"text": "hi"}, start=TRIAGE)
            async for item in feed:
                assert isinstance(item, Event)
                break
        await live.stop()


# --- TLS and a user who may do only what Frontdesk needs --------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Topology]:
    """Debian's redis-server with TLS and the ACL user of the deployment guide."""
    if debian_redis() is None:
        pytest.skip("there is no redis-server with TLS on PATH (Debian: apt install redis-server)")
    with tls_server(tmp_path / "tls", "frontdesk", "desk-password", acl_rules()) as topology:
        yield topology


async def test_the_documented_acl_user_can_do_everything_that_frontdesk_does(
    guarded: Topology, opened: Open, tmp_path: Path
) -> None:
    """A whole day at the desk over TLS as the least-privileged user: the server's ACL log stays empty."""
    backend = await opened(guarded.url)
    store = Store(backend)
    live = Live(backend, store)
    await live.start()
    models = {"triage": script([transfer("billing")], [says("Welcome back.")]), "billing": script([says("Refunded.")])}
    router = router_for(store, live, shop(), models, tmp_path)
    await router.start()
    ann = Person("ann", "Ann")

    await router.receive("c_tls", CustomerMessage("m1", "refund please"))
    await wait_until("the turn ends", lambda: router.running == 0)
    taken = await router.take("c_tls", person=ann)
    await router.say("c_tls", taken.token, ann, "Ann here.", "s1")
    await router.receive("c_tls", CustomerMessage("m2", "thanks"))
    await router.hand_back("c_tls", taken.token, ann, "triage", "all done")
    await wait_until("triage has answered", lambda: has_answer(store, "Welcome back."))
    async with live.follow("c_tls") as feed:
        await store.publish("c_tls", Ephemeral("typing", {"on": True}))
        async for item in feed:
            if isinstance(item, Ephemeral):
                break
    assert [found.conversation_id for found in await store.recent()] == ["c_tls"]
    assert await store.due() == []
    assert await store.secret("widget") == await store.secret("widget")
    await store.ping()
    await wait_until("it hears itself", lambda: live.healthy)
    await router.stop(1)
    await live.stop()

    with guarded.data[0].client() as client:
        assert client.acl_log() == []
    assert backend.warnings == []


async def has_answer(store: Store, text: str) -> bool:
    return text in answers(await store.read("c_tls"))


async def test_the_documented_acl_user_can_do_nothing_else(guarded: Topology, opened: Open) -> None:
    """Foreign keys, foreign channels, and every command that could destroy or read something else are refused."""
    backend = await opened(guarded.url)
    for command in (
        ("GET", "another-app"),
        ("SET", "another-app", "1"),
        ("PUBLISH", "another-app", "1"),
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("KEYS", "*"),
        ("CONFIG", "SET", "maxmemory", "1"),
        ("SHUTDOWN",),
        ("REPLICAOF", "NO", "ONE"),
        ("SCRIPT", "FLUSH"),
        ("CLIENT", "KILL", "TYPE", "normal"),
        ("ACL", "LIST"),
        ("EVAL", "return redis.call('GET', KEYS[1])", "1", "another-app"),
    ):
        with pytest.raises(NoPermissionError):
            await backend.cmd.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py left it so
