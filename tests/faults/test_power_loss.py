"""Power loss: what was not synced when the power went is gone. With `appendfsync always` no acknowledged write is.

SIGKILL alone loses nothing, because the page cache survives it. So a shim notes how much of each file was synced, and
after the kill everything beyond it is cut off.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sessions.connect import connect
from sessions.errors import StoreError
from sessions.model import NewEvent, Owner
from sessions.scripts import Scripts
from sessions.store import Store
from tests.faults.harness.server import ValkeyServer

WRITERS = 6
MIN_WRITES = 300  # acknowledged before the power goes
ROUNDS = 3
TEXT = "x" * 200
SEED = 20_261_130


@dataclass(frozen=True, slots=True)
class Loss:
    """What one power loss did. `acknowledged` and `lost` count writes, `cut_bytes` what never reached the disk."""

    acknowledged: int
    lost: int
    cut_bytes: int

    def __str__(self) -> str:
        return f"{self.lost} of {self.acknowledged} acknowledged writes lost, {self.cut_bytes} bytes cut off"


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim, compiled."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed: the shim that notes fsync cannot be compiled")
    built = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True
    )
    return built


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: unix sockets have room for 107 characters."""
    made = Path(tempfile.mkdtemp(prefix="fdp-"))
    yield made
    shutil.rmtree(made)


class Once(Scripts):
    """Scripts that are not repeated: the server will not come back while the writers wait."""

    async def call(
        self, name: str, keys: Sequence[str], args: Sequence[str | int], *, repeat: bool = True
    ) -> list[Any]:
        return await super().call(name, keys, args, repeat=False)


class Writer:
    """A customer and a worker in one: stores a message, claims it, answers it; remembers every acknowledged place."""

    def __init__(self, store: Store, number: int) -> None:
        self.conversation_id = f"c{number}"
        self.acknowledged: list[str] = []
        self._store = store

    async def run(self) -> None:
        """Until the server is gone."""
        number = 0
        try:
            while True:
                number += 1
                await self._turn(number)
        except StoreError:
            return  # the outcome is unknown: not acknowledged

    async def _turn(self, number: int) -> None:
        data = {"id": f"m{number}", "text": TEXT}
        receipt = await self._store.enqueue(
            self.conversation_id, f"m{number}", data, start=Owner.ai("triage"), claim=True
        )
        self.acknowledged.append(receipt.event_id)
        assert receipt.grant is not None
        answer = NewEvent("msg.created", {"id": f"a{number}", "text": TEXT})
        done = await self._store.commit(
            self.conversation_id, receipt.grant.token, f"turn:{number}", answered=1, events=[answer]
        )
        self.acknowledged += done.event_ids


async def write_until_power_is_gone(server: ValkeyServer, strike: random.Random) -> dict[str, list[str]]:
    """The places that each conversation's writers were told; then the server is killed in the middle of its work."""
    backend = await connect(server.url, data_dir=server.folder)
    writers = [Writer(Store(backend, scripts=Once(backend.cmd)), number) for number in range(WRITERS)]
    tasks = [asyncio.create_task(writer.run()) for writer in writers]
    enough = MIN_WRITES + strike.randrange(100)
    while sum(len(writer.acknowledged) for writer in writers) < enough:
        assert not all(task.done() for task in tasks)
        await asyncio.sleep(0)  # let them write
    server.kill()
    await asyncio.gather(*tasks)
    await backend.close()
    return {writer.conversation_id: writer.acknowledged for writer in writers}


def cut(server: ValkeyServer, synced: Path, torn: random.Random | None) -> int:
    """Take away what was not synced: all of it, or (torn) a random part, as a disk may have written some of it."""
    sizes: dict[str, int] = {}
    for line in synced.read_text().splitlines():
        synced_size, _, path = line.partition(" ")
        sizes[path] = int(synced_size)
    lost = 0
    for file in sorted(server.append_only_folder.glob("*.aof")):
        size, safe = file.stat().st_size, sizes.get(str(file), 0)
        keep = safe if torn is None else torn.randint(safe, max(safe, size))
        lost += max(0, size - keep)
        with file.open("r+b") as handle:
            handle.truncate(min(size, keep))
    return lost


def power_loss(folder: Path, shim: Path, fsync: str, seed: int, *, torn: bool = False) -> Loss:
    """Write, lose power, come back, and count what is missing."""
    rnd = random.Random(seed)  # noqa: S311  # a test repeats its moments
    synced = folder / "synced"
    server = ValkeyServer(folder, fsync=fsync, env={"LD_PRELOAD": str(shim), "SYNCED": str(synced)})
    server.start()
    told = asyncio.run(write_until_power_is_gone(server, rnd))
    gone = cut(server, synced, rnd if torn else None)
    again = ValkeyServer(folder, fsync=fsync)
    again.start()
    try:
        lost = sum(len(missing) for missing in asyncio.run(_missing(again, told)).values())
    finally:
        again.kill()
    return Loss(sum(map(len, told.values())), lost, gone)


async def _missing(server: ValkeyServer, told: dict[str, list[str]]) -> dict[str, list[str]]:
    backend = await connect(server.url, data_dir=server.folder)
    store = Store(backend)
    missing = {}
    for conversation_id, places in told.items():
        there = {event.id for event in await store.read(conversation_id, limit=100_000)}
        missing[conversation_id] = [place for place in places if place not in there]
    await backend.close()
    return missing


@pytest.mark.parametrize("torn", [False, True], ids=["cut at the last sync", "torn after it"])
def test_always_loses_no_acknowledged_write(folder: Path, shim: Path, torn: bool) -> None:
    """With `appendfsync always`, all that a caller was told is there after a power loss, three times in a row."""
    for round_ in range(ROUNDS):
        place = folder / str(round_)
        place.mkdir()
        loss = power_loss(place, shim, "always", SEED + round_, torn=torn)
        print(f"always, power loss {round_}: {loss}")
        assert loss.acknowledged >= MIN_WRITES
        assert loss.lost == 0


def test_everysec_is_why_the_start_warns(folder: Path, shim: Path) -> None:
    """With `everysec` the same power loss is reported, not asserted: how much goes depends on the moment. The emulation
    itself is proved by it: the server comes back and the conversations that are left are whole up to some point."""
    loss = power_loss(folder, shim, "everysec", SEED)

    print(f"everysec, power loss: {loss}")
    assert 0 <= loss.lost <= loss.acknowledged


def test_no_sync_at_all_loses_what_the_emulation_must_take(folder: Path, shim: Path) -> None:
    """Without any sync everything is lost: the emulation really takes away what was not synced."""
    loss = power_loss(folder, shim, "no", SEED)

    assert loss.lost > loss.acknowledged * 0.9
    assert loss.cut_bytes > 0
