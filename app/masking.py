"""Hides sensitive values in what is shown or exported: by name, and wherever their text stands in other texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from handoffs.roster import ValueContract
from sessions.model import Value

HIDDEN: Final = "[hidden]"
SHORTEST: Final = 4  # characters; "yes" or "12" stands in any text and tells nobody anything


class Masker:
    """Knows the contracts of a desk and the values of one conversation."""

    def __init__(self, contracts: Mapping[str, ValueContract], values: Mapping[str, Value]) -> None:
        self._contracts = contracts
        secrets = {text for key, value in values.items() if self.hides(key) for text in _texts(value.value)}
        longest_first = sorted(secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if secrets else None

    def hides(self, key: str) -> bool:
        """Whether a value is sensitive, or declared nowhere (then nobody said that it may be shown)."""
        return key not in self._contracts or self._contracts[key].sensitive

    def text(self, text: str) -> str:
        """`text` without the sensitive values."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text

    def deep(self, data: Any) -> Any:
        """The same for every text inside a JSON value."""
        if self._pattern is None:
            return data
        if isinstance(data, str):
            return self.text(data)
        if isinstance(data, Mapping):
            return {key: self.deep(value) for key, value in data.items()}
        return [self.deep(value) for value in data] if isinstance(data, list | tuple) else data


def _texts(value: Any) -> Iterator[str]:
    """Every text and number in a value that is long enough to be recognised."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
    elif not isinstance(value, bool) and value is not None and len(str(value)) >= SHORTEST:
        yield str(value)
