"""What happened: each process appends its operations to its own file; together they are the history.

An operation is two lines, one before the call and one after it, each written at once: a process that is killed leaves
an operation without an end, and its outcome is unknown.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNKNOWN = "unknown"  # no answer came: it may have taken effect, or may yet


@dataclass(frozen=True, slots=True)
class Operation:
    """One call. Times are CLOCK_MONOTONIC in ns, the same clock in all processes of a machine.

    `request` is what makes repetitions the same request (empty when a repetition is a new one); `asked` are the
    arguments that matter, `answer` what came back. `returned` is None when nothing came back.
    """

    process: str
    kind: str
    conversation_id: str
    request: str
    invoked: int
    returned: int | None = None
    outcome: str = UNKNOWN
    asked: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """True when an answer came, so that the caller knows what the operation did."""
        return self.returned is not None and self.outcome != UNKNOWN


class Journal:
    """One process' file of operations."""

    def __init__(self, path: Path, process: str) -> None:
        self.process = process
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._next = 0

    def begin(self, kind: str, conversation_id: str, request: str = "", **asked: Any) -> int:
        """Write down that a call is about to be made; the number that `end` takes."""
        self._next += 1
        row = {"n": self._next, "kind": kind, "c": conversation_id, "r": request, "asked": asked}
        self._write({**row, "at": time.monotonic_ns()})
        return self._next

    def end(self, number: int, outcome: str, **answer: Any) -> None:
        """Write down what came back."""
        self._write({"n": number, "at": time.monotonic_ns(), "outcome": outcome, "answer": answer})

    def close(self) -> None:
        """No more operations of this process."""
        os.close(self._file)

    def _write(self, row: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(row, separators=(",", ":")).encode() + b"\n")


def load(paths: Iterable[Path]) -> list[Operation]:
    """All operations of all files, in the order in which they were invoked."""
    found = [operation for path in paths for operation in _read(path)]
    return sorted(found, key=lambda operation: operation.invoked)


def _read(path: Path) -> list[Operation]:
    begun: dict[int, dict[str, Any]] = {}
    ended: dict[int, dict[str, Any]] = {}
    for line in path.read_text("utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue  # a process that was killed while it wrote its last line
        (begun if "kind" in row else ended)[row["n"]] = row
    return [_operation(path.stem, row, ended.get(number)) for number, row in begun.items()]


def _operation(process: str, row: dict[str, Any], end: dict[str, Any] | None) -> Operation:
    return Operation(
        process=process,
        kind=row["kind"],
        conversation_id=row["c"],
        request=row["r"],
        invoked=row["at"],
        returned=end["at"] if end else None,
        outcome=end["outcome"] if end else UNKNOWN,
        asked=row["asked"],
        answer=end["answer"] if end else {},
    )
