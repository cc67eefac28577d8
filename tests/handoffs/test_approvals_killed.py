"""kill -9 of real worker processes around an approval: the call is made once, whoever goes on (handoffs.md 8)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handoffs.approvals import decide
from sessions.connect import Backend
from sessions.model import Owner
from sessions.store import Store
from tests.faults.harness.server import die_with_parent
from tests.handoffs.approving import Counted, asked, said
from tests.handoffs.approving_worker import Orders
from tests.support import wait_until

ROOT = Path(__file__).parents[2]
Start = Callable[..., int]


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported everything and forks workers, which die with it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.handoffs.approving_worker"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def start(backend: Backend, nursery: subprocess.Popen[str], conversation_id: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a worker process on the test's server and gives its id; all of them are killed after the test."""
    running: list[int] = []

    def worker(*, says: str = "", stops: str = "") -> int:
        assert nursery.stdin and nursery.stdout
        nursery.stdin.write(Orders(url_of(backend), str(tmp_path), conversation_id, says, stops).dump() + "\n")
        nursery.stdin.flush()
        running.append(int(nursery.stdout.readline()))
        return running[-1]

    yield worker
    for pid in running:
        kill(pid)


def url_of(backend: Backend) -> str:
    where = backend.cmd.connection_pool.connection_kwargs
    return f"unix://{where['path']}" if "path" in where else f"redis://{where['host']}:{where['port']}"


def kill(pid: int) -> None:
    """kill -9: it says no other word and gives nothing back."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


async def test_every_process_is_killed_between_question_and_answer(
    store: Store, conversation_id: str, tmp_path: Path, start: Start
) -> None:
    """handoffs.md 8: survives kill -9 and a restart; the decision is made while nobody works."""
    counted = Counted(tmp_path)
    first = start(says="refund A-1")
    (approval,) = await asked(store, conversation_id)
    await wait_until("the turn rests", lambda: rests(store, conversation_id))
    kill(first)
    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    before = counted.executions

    start()
    events = await said(store, conversation_id, "Done: refunded.")

    assert (before, counted.executions) == ([], ["refund A-1"])
    texts = [event.data["text"] for event in events if event.type == "msg.created"]
    assert texts == ["refund A-1", "I'll ask for it.", "Done: refunded."]


async def test_worker_is_killed_between_the_call_and_the_commit(
    store: Store, conversation_id: str, tmp_path: Path, start: Start
) -> None:
    """handoffs.md 8 and 9: the call ran, nothing was committed; the heir takes the recorded result. Exactly one."""
    counted = Counted(tmp_path)
    first = start(says="refund A-1", stops="model")
    (approval,) = await asked(store, conversation_id)
    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    await wait_until("the result is recorded", lambda: recorded(store, conversation_id))
    kill(first)

    start()
    events = await said(store, conversation_id, "Done: refunded.")

    assert counted.executions == ["refund A-1"]
    assert [event.type for event in events].count("approval.used") == 1
    assert (await store.get(conversation_id)).owner == Owner.ai("billing")


async def test_worker_is_killed_inside_the_call(
    store: Store, conversation_id: str, tmp_path: Path, start: Start
) -> None:
    """handoffs.md 8 and 9: nobody can know whether it took effect, so it is not made again, and people look."""
    counted = Counted(tmp_path)
    first = start(says="refund A-1", stops="tool")
    (approval,) = await asked(store, conversation_id)
    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    await wait_until("the call runs", lambda: counted.executions)
    kill(first)

    start()

    async def with_people() -> bool:
        return (await store.get(conversation_id)).owner == Owner.queue("support")

    await wait_until("people own it", with_people)
    assert counted.executions == ["refund A-1"]


async def rests(store: Store, conversation_id: str) -> bool:
    return not (await store.get(conversation_id)).worker


async def recorded(store: Store, conversation_id: str) -> bool:
    done, _ = await store.journal(conversation_id)
    return bool(done)
