"""What is noted about one tool call while it runs: its place among equal calls, and what it changes of shared values.

It follows the call by itself, also into the thread of a tool that is not async, so calls at the same time stay apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass
class CallNotes:
    """`name` tells this call from equal ones of the same step; `changes` are those of shared values, in order."""

    name: str
    changes: list[dict[str, Any]] = field(default_factory=list)


_under_way: ContextVar[CallNotes | None] = ContextVar("frontdesk_call", default=None)


def under_way() -> CallNotes | None:
    """The notes of the call that this code runs for; None outside of a journalled call."""
    return _under_way.get()


@contextmanager
def noting(name: str) -> Iterator[CallNotes]:
    """Note what the call `name` does. What a call inside of another one changes counts for the outer one too."""
    outer, notes = _under_way.get(), CallNotes(name)
    token = _under_way.set(notes)
    try:
        yield notes
    finally:
        _under_way.reset(token)
        if outer is not None:
            outer.changes.extend(notes.changes)
