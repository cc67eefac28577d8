"""A contestant in a process of its own, driven by JSON lines. Standard library only: the peers' Python imports it too.

One line in, one line out:

    {"do": "prepare", "kind": "handoff", "history": 100}   ->  {"id": 7}      a conversation with 100 earlier messages
    {"do": "play", "id": 7}                                ->  {"cpu": 0.012, "wall": 0.015, "trips": 14}
    {"do": "forget", "id": 7}                              ->  {}             look at what was stored, then delete it

`cpu` (s) is the whole process', threads and what the turn leaves running included; `wall` (s) ends with the turn's last
character and its last write. An error is {"error": text}.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

ANSWER = "You were charged once; the second entry is a reservation that your bank releases within five days."
QUESTION = "Why do I see two charges for one order?"
ROOT = Path(__file__).resolve().parents[1]
LEFT_OVER_S = 2.0  # how long tasks that a turn left behind may still count as its CPU


class Driver(Protocol):
    """One contestant. What `prepare` gives is handed to `play` once, and then to `forget`."""

    async def prepare(self, kind: str, history: int) -> Any: ...

    async def play(self, ready: Any) -> None: ...

    async def forget(self, ready: Any) -> None: ...


def earlier(count: int) -> list[dict[str, str]]:
    """`count` messages, customer and agent by turns, of a usual length."""
    roles = itertools.cycle(("user", "assistant"))
    return [
        {"role": next(roles), "content": f"Message {n}: about my order and the invoice for it."} for n in range(count)
    ]


async def serve(driver: Driver, trips: Callable[[], int] = lambda: 0) -> None:
    """Do what the lines on stdin say until it ends. Whatever else prints to stdout is sent to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    conversations: dict[int, Any] = {}
    numbers = itertools.count(1)
    print(json.dumps({"ready": True}), file=out, flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        try:
            if order["do"] == "prepare":
                answer: dict[str, Any] = {"id": next(numbers)}
                conversations[answer["id"]] = await driver.prepare(order["kind"], order["history"])
                gc.collect()  # what preparing left behind is not the turn's
            elif order["do"] == "play":
                answer = await measured(driver, conversations[order["id"]], trips)
            else:
                await driver.forget(conversations.pop(order["id"]))
                answer = {}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


async def measured(driver: Driver, ready: Any, trips: Callable[[], int]) -> dict[str, Any]:
    sent, before = trips(), asyncio.all_tasks()
    wall, cpu = time.perf_counter(), time.process_time()
    await driver.play(ready)
    wall = time.perf_counter() - wall
    if left := asyncio.all_tasks() - before:
        await asyncio.wait(left, timeout=LEFT_OVER_S)
    return {"cpu": time.process_time() - cpu, "wall": wall, "trips": trips() - sent}


class Child:
    """The other end: a driver's process. RuntimeError when it dies or answers with an error."""

    def __init__(self, name: str, python: str, module: str, *words: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, "-m", module, name, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "LANGSMITH_TRACING": "false"},  # nobody's turn is sent to a tracing service
        )

    def started(self) -> None:
        self._answer()

    def ask(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name}: its process ended with status {self._process.wait()}; see above")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        self._process.communicate()
