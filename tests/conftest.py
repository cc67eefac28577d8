"""Real parts for every test: one embedded Valkey for the run, a store and a live reader on it for each test."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from agents import set_tracing_disabled

from sessions.connect import Backend, connect
from sessions.embedded import acquire
from sessions.live import Live
from sessions.store import Store


@pytest.fixture(scope="session", autouse=True)
def no_tracing() -> None:
    """The SDK must not even try to send traces away."""
    set_tracing_disabled(True)


@pytest.fixture(scope="session")
def valkey_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data folder of a real embedded Valkey that runs as long as the tests do."""
    folder = tmp_path_factory.mktemp("valkey")
    lease = acquire(folder)
    yield folder
    lease.release()


@pytest.fixture
async def backend(valkey_dir: Path) -> AsyncIterator[Backend]:
    """Fresh connections to the run's Valkey, emptied: a sweep must not find another test's conversations."""
    opened = await connect(f"embedded://{valkey_dir}", data_dir=valkey_dir)
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
