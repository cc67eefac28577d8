"""Customers and people: they talk to the workers' doors, repeat what was not answered, and write down the answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.faults.harness.history import UNKNOWN, Journal
from tests.faults.harness.plan import Plan, Say, Shift
from tests.faults.harness.screens import Screens

PATIENCE_S = 1.5  # without an answer for so long, a client tries another door
RETRY_S = (0.02, 0.15)  # between two tries


class Doors:
    """One client's connections to the workers, made when needed and dropped when anything goes wrong."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._open: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(self, door: int, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The worker's answer; None when there was none, and nobody knows what became of the request."""
        number = door % len(self._paths)
        try:
            async with asyncio.timeout(PATIENCE_S):
                if number not in self._open:
                    self._open[number] = await asyncio.open_unix_connection(self._paths[number])
                reader, writer = self._open[number]
                writer.write(json.dumps(request).encode() + b"\n")
                await writer.drain()
                line = await reader.readline()
            answer: dict[str, Any] = json.loads(line)
        except (OSError, TimeoutError, ValueError):
            self._drop(number)
            return None
        return answer

    def close(self) -> None:
        """Close every connection."""
        for number in list(self._open):
            self._drop(number)

    def _drop(self, number: int) -> None:
        opened = self._open.pop(number, None)
        if opened is not None:
            opened[1].close()


class Client:
    """What customers and people have in common: ask, write down, ask again elsewhere."""

    def __init__(self, name: str, plan: Plan, paths: list[str], journal: Journal) -> None:
        self.name = name
        self._doors = Doors(paths)
        self._second = Doors(paths)  # for the same request at the same time elsewhere
        self._journal = journal
        self._pause = random.Random(f"{plan.seed}:{name}:pauses")  # noqa: S311  # a plan must be repeatable
        self._workers = plan.workers

    def close(self) -> None:
        """Leave."""
        self._doors.close()
        self._second.close()

    async def _once(self, doors: Doors, door: int, request: Mapping[str, Any], key: str) -> dict[str, Any] | None:
        number = self._journal.begin(f"client.{request['op']}", str(request["c"]), key)
        answer = await doors.ask(door, request)
        if answer is None or answer.get("error") == "StoreUnavailable":
            self._journal.end(number, UNKNOWN)
            return None
        outcome = answer.get("error") or ("dup" if answer.get("duplicate") else "ok")
        self._journal.end(number, outcome, ids=answer.get("ids", []))
        return answer

    async def _ask(
        self,
        door: int,
        request: Mapping[str, Any],
        *,
        key: str,
        twice: bool = False,
        give_up: Callable[[], bool],
    ) -> dict[str, Any] | None:
        """Ask until somebody answers; None when `give_up` says so first."""
        while not give_up():
            tries = [self._once(self._doors, door, request, key)]
            if twice:
                tries.append(self._once(self._second, door + 1, request, key))
            answers = await asyncio.gather(*tries)
            for answer in answers:
                if answer is not None and answer.get("error") not in ("StoreRefused", "Conflict"):
                    return answer
            await asyncio.sleep(self._pause.uniform(*RETRY_S))
            door += 1
        return None


class Customer(Client):
    """Sends the planned messages one after the other; each until it is acknowledged."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        paths: list[str],
        journal: Journal,
        sayings: tuple[Say, ...],
        screens: Screens,
    ) -> None:
        super().__init__(name, plan, paths, journal)
        self._sayings = sayings
        self._screens = screens
        self.conversation_id = sayings[0].conversation_id if sayings else ""  # the one that people may take

    async def run(self, over: Callable[[], bool], give_up: Callable[[], bool]) -> None:
        """Until `over`; what was begun is still tried until `give_up`."""
        for say in self._sayings:
            await asyncio.sleep(say.after)
            if over():
                return
            self._screens.open(say.conversation_id)
            request = {"op": "send", "c": say.conversation_id, "id": say.message_id, "text": say.text}
            await self._ask(say.door, request, key=f"msg:{say.message_id}", twice=say.twice, give_up=give_up)
            self.conversation_id = say.conversation_id


class Colleague(Client):
    """A person who takes conversations, says something, and hands them back or walks away."""

    def __init__(
        self,
        name: str,
        plan: Plan,
        paths: list[str],
        journal: Journal,
        shifts: tuple[Shift, ...],
        where: list[Customer],
    ) -> None:
        super().__init__(name, plan, paths, journal)
        self._shifts = shifts
        self._where = where

    async def run(self, over: Callable[[], bool], give_up: Callable[[], bool]) -> None:
        """Until `over`."""
        for number, shift in enumerate(self._shifts):
            await asyncio.sleep(shift.after)
            if over():
                return
            customer = int(shift.conversation_id.removeprefix("c"))
            await self._work(number, shift, self._where[customer].conversation_id, give_up)

    async def _work(self, number: int, shift: Shift, conversation_id: str, give_up: Callable[[], bool]) -> None:
        base = {"c": conversation_id, "person": self.name}
        key = f"{self.name}.{number}"
        # a lost answer to a takeover is not repeated: a person looks again, and takes again if need be
        taken = await self._once(self._doors, shift.door, {**base, "op": "take", "force": shift.force}, "")
        if taken is None or "error" in taken:
            return
        held = {**base, "token": taken["token"]}
        for n in range(shift.sayings):
            await asyncio.sleep(shift.pause)
            say = {**held, "op": "say", "id": f"{key}.{n}", "text": f"{self.name} says {key}.{n}"}
            await self._ask(shift.door + n, say, key=f"say:{key}.{n}", twice=shift.twice, give_up=give_up)
        if shift.back_to:
            await asyncio.sleep(shift.pause)
            back = {**held, "op": "back", "to": shift.back_to}
            await self._ask(
                shift.door, back, key=f"back:{taken['token'].partition('.')[0]}", twice=shift.twice, give_up=give_up
            )


async def all_of(
    clients: list[Customer] | list[Colleague], *, over: Callable[[], bool], give_up: Callable[[], bool]
) -> None:
    """Let them all work until they are done."""
    with contextlib.ExitStack() as leaving:
        for client in clients:
            leaving.callback(client.close)
        await asyncio.gather(*(client.run(over, give_up) for client in clients))
