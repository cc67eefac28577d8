"""A working copy of shared values: reads see the own writes, the commit compares and sets.

Tools may run in threads of their own, so every change is made under a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from sessions.model import Json, Value, ValueWrite

Change = Callable[[Json], Json]  # what a value becomes, from what it is (None: not set). May be called more than once

UNSET = Value(None, 0)


class ValuesDraft:
    """`base` is what the claim brought. Nothing is written until the commit takes `writes()`."""

    def __init__(self, base: Mapping[str, Value]) -> None:
        self._base = dict(base)
        self._changed: dict[str, Json] = {}
        self._updates: dict[str, list[Change]] = {}  # of the keys that nothing but functions of the old value changed
        self._lock = threading.RLock()

    def get(self, key: str, default: Json = None) -> Json:
        """The value of `key`, the changed one first."""
        if key in self._changed:
            return self._changed[key]
        return self._base[key].value if key in self._base else default

    def set(self, key: str, value: Json) -> None:
        """Change `key`, for this turn now and for everybody at the commit."""
        with self._lock:
            self._updates.pop(key, None)
            self._changed[key] = value

    def update(self, key: str, change: Change) -> Json:
        """Change `key` to what `change` makes of it, and give it back; `rebase` may call it again later."""
        with self._lock:
            value = change(self.get(key))
            if key in self._updates or key not in self._changed:
                self._updates.setdefault(key, []).append(change)
            self._changed[key] = value
            return value

    def stored(self, key: str) -> Value:
        """What is stored, as far as this copy knows; None with revision 0 when it is not there."""
        return self._base.get(key, UNSET)

    def __contains__(self, key: object) -> bool:
        return key in self._changed or key in self._base

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        yield from (key for key in self._changed if key not in self._base)

    def writes(self) -> list[ValueWrite]:
        """What changed, each with the revision that was read (0: it was not there)."""
        return [
            ValueWrite(key, value, self._base[key].rev if key in self._base else 0)
            for key, value in self._changed.items()
            if key not in self._base or self._base[key].value != value
        ]

    def rebase(self, now: Mapping[str, Value]) -> bool:
        """Make the changes again on what is stored now. False, and nothing is done, when a `set` never saw that."""
        with self._lock:
            moved = [key for key in self._changed if _rev(now, key) != _rev(self._base, key)]
            if any(key not in self._updates for key in moved):
                return False
            fresh = {}
            for key in moved:
                value = now[key].value if key in now else None
                for change in self._updates[key]:
                    value = change(value)
                fresh[key] = value
            self._changed |= fresh
            self._base = dict(now)
            return True

    def counted(self) -> frozenset[str]:
        """The changed keys that nothing but functions of the old value changed."""
        return frozenset(self._updates)

    def settle(self, only: str | None = None) -> None:
        """The commit succeeded, of everything or of one key: the changes are the base now."""
        with self._lock:
            for write in self.writes():
                if only in (None, write.key):
                    self._base[write.key] = Value(write.value, (write.expected_rev or 0) + 1)
            for key in [only] if only is not None else list(self._changed):
                self._changed.pop(key, None)
                self._updates.pop(key, None)


def _rev(values: Mapping[str, Value], key: str) -> int:
    return values[key].rev if key in values else 0
