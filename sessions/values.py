"""A working copy of a conversation's shared values: reads see the own writes, the commit compares and sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sessions.model import Json, Value, ValueWrite


class ValuesDraft:
    """`base` is what the claim brought. Nothing is written until the commit takes `writes()`."""

    def __init__(self, base: Mapping[str, Value]) -> None:
        self._base = dict(base)
        self._changed: dict[str, Json] = {}

    def get(self, key: str, default: Json = None) -> Json:
        """The value of `key`, the changed one first."""
        if key in self._changed:
            return self._changed[key]
        return self._base[key].value if key in self._base else default

    def set(self, key: str, value: Json) -> None:
        """Change `key`, for this turn now and for everybody at the commit."""
        self._changed[key] = value

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

    def settle(self) -> None:
        """The commit succeeded: the changes are the base now."""
        for write in self.writes():
            self._base[write.key] = Value(write.value, (write.expected_rev or 0) + 1)
        self._changed.clear()
