"""Real parts for every test: one embedded Valkey for the run, a store and a live reader on it for each test.

FRONTDESK_TEST_SERVERS=embedded,redis7,sentinel,cluster,tls (as `make test` sets it) runs tests/sessions on all of these
and tests/handoffs on Redis 7 as well.
FRONTDESK_TEST_REDIS_URL=redis://... runs everything on that server instead. It is EMPTIED before each test.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sessions.connect import Backend, connect
from sessions.embedded import acquire
from sessions.live import Live
from sessions.store import Store
from tests.faults.topologies import Topology, cluster, debian_redis, one_server, sentinel_set, tls_server

SERVERS = os.environ.get("FRONTDESK_TEST_SERVERS", "embedded").split(",")
GIVEN_URL = os.environ.get("FRONTDESK_TEST_REDIS_URL", "")
ON_EVERY_SERVER = "sessions"  # folder whose tests run on all of them
ON_ONE_SERVER = ("embedded", "redis7")  # what those of tests/handoffs run on
DEPLOYMENT = Path(__file__).parent.parent / "docs" / "how-to" / "deploy-redis.md"
TESTS_ONLY = ("+flushall", "+script|flush", "+client|kill", "+zcard")  # what tests do and Frontdesk does not

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"  # the SDK must not even try to send traces away
for variable in [name for name in os.environ if name.startswith(("OPENAI_API_KEY", "OPENAI_BASE_URL", "FRONTDESK_"))]:
    if not variable.startswith("FRONTDESK_TEST_"):
        del os.environ[variable]  # a developer's own settings must not reach the tests

ServerOf = Callable[[str], Topology]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses `backend` once for each server that was asked for."""
    if "backend" not in metafunc.fixturenames or GIVEN_URL or SERVERS == ["embedded"]:
        return
    path = metafunc.definition.path
    if path.parent.name not in ("sessions", "handoffs"):
        return
    wanted = [name for name in SERVERS if path.parent.name == ON_EVERY_SERVER or name in ON_ONE_SERVER]
    metafunc.parametrize("backend", wanted, indirect=True)


def acl_rules() -> list[str]:
    """The least-privilege rules that the deployment guide gives, so that the tests run with exactly those."""
    text = DEPLOYMENT.read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith("user frontdesk on >"))
    return line.split()[4:]


@pytest.fixture(scope="session")
def valkey_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data folder of a real embedded Valkey that runs as long as the tests do."""
    folder = tmp_path_factory.mktemp("valkey")
    lease = acquire(folder)
    yield folder
    lease.release()


@pytest.fixture(scope="session")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOf]:
    """Gives the run's server (or servers) of a kind, started when it is first asked for."""
    started: dict[str, Topology] = {}
    with ExitStack() as stack:

        def get(kind: str) -> Topology:
            if kind in ("redis7", "tls") and debian_redis() is None:
                pytest.skip("there is no redis-server on PATH (Debian: apt install redis-server)")
            if kind not in started:
                folder = tmp_path_factory.mktemp(kind)
                if kind == "tls":
                    rules = [*acl_rules(), *TESTS_ONLY]
                    started[kind] = stack.enter_context(tls_server(folder, "frontdesk", "desk-password", rules))
                elif kind == "redis7":
                    started[kind] = stack.enter_context(one_server(folder, program=debian_redis()))
                else:
                    started[kind] = stack.enter_context(cluster(folder) if kind == "cluster" else sentinel_set(folder))
            return started[kind]

        yield get


@pytest.fixture
async def backend(request: pytest.FixtureRequest, valkey_dir: Path, server_of: ServerOf) -> AsyncIterator[Backend]:
    """Fresh connections to the run's server, emptied: a sweep must not find another test's conversations."""
    kind = getattr(request, "param", "embedded")
    url = GIVEN_URL or (f"embedded://{valkey_dir}" if kind == "embedded" else server_of(kind).url)
    opened = await connect(url, data_dir=valkey_dir)
    await opened.cmd.flushall()
    yield opened
    await opened.close()


@pytest.fixture
def store(backend: Backend) -> Store:
    """A store as one worker process has it."""
    return Store(backend)


@pytest.fixture
async def live(backend: Backend, store: Store) -> AsyncIterator[Live]:
    """A started live reader."""
    reader = Live(backend, store)
    await reader.start()
    yield reader
    await reader.stop()


@pytest.fixture
def conversation_id() -> str:
    """A conversation that no other test uses."""
    return f"c_{secrets.token_hex(8)}"
