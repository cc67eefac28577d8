"""What the model does in one call: say something, or call one tool. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Say:
    """An answer to the customer; ends the turn."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call of one tool, with arguments that its JSON schema accepts."""

    name: str
    arguments: Mapping[str, Any]


Step = Say | Call
