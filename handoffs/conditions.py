"""`when:` of an agent file: a condition on shared values and labels, such as `risk is high and amount > 100`.

Read once, when the file is loaded, into plain tests; nothing in it is ever run as code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

Operator = Literal["set", "not set", "==", "!=", "<", ">", "<=", ">="]

HOW = (
    "expected tests joined by `and`, each like `verified is set`, `refund_id is not set`, `risk == high`, "
    "`city != 'New York'`, `amount > 100` or `approval.issue_refund == refused`"
)
_TEST = re.compile(
    r"""\s*(?P<subject>[a-z][a-z0-9_]{0,40}(?:\.[A-Za-z_][A-Za-z0-9_-]*)?)  # a value, or a label such as approval.tool
        \s*(?P<operator>==|!=|<=|>=|<|>|\bis\s+not\b|\bis\b)
        \s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'<>=!]+))\s*""",
    re.VERBOSE,
)
_AND = re.compile(r"and\b\s*")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


class Contract(Protocol):
    """What a shared value may be (handoffs.roster.ValueContract)."""

    @property
    def type(self) -> str: ...

    def why_not(self, value: Any) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """One test. `subject` is the key of a shared value, or a label (it has a dot); `text` is what it is compared to."""

    subject: str
    operator: Operator
    text: str = ""

    @property
    def is_label(self) -> bool:
        return "." in self.subject

    @property
    def number(self) -> float | None:
        """`text` as a number, None when it is none."""
        return float(self.text) if _NUMBER.fullmatch(self.text) else None

    def holds(self, found: Any) -> bool:
        """Whether it is true of `found`: the value or the label, None when there is none."""
        match self.operator:
            case "set":
                return bool(found)
            case "not set":
                return not found
            case "==":
                return self._equals(found)
            case "!=":
                return not self._equals(found)
        return self._in_order(found)

    def why_never(self, contract: Contract) -> str | None:
        """Why a value of this contract can never pass or fail the test; None when it can."""
        kind, number = contract.type, self.number
        if self.operator in ("set", "not set"):
            return None
        if kind in ("list", "map"):
            return f"`{self.subject}` is a {kind}; allowed are `is set` and `is not set`"
        if self.operator in ("<", ">", "<=", ">="):
            return None if kind in ("integer", "number") else f"`{self.operator}` compares numbers; it is a {kind}"
        wanted: Any = self.text
        if kind == "boolean":
            wanted = {"true": True, "false": False}.get(self.text.lower(), self.text)
        elif kind in ("integer", "number") and number is not None:
            wanted = int(number) if number.is_integer() else number
        why = contract.why_not(wanted)
        return f"`{self.subject}` can never be {self.text!r}: {why}" if why else None

    def _equals(self, found: Any) -> bool:
        if isinstance(found, bool):
            return self.text.lower() == str(found).lower()
        if isinstance(found, int | float):
            return self.number == found
        return isinstance(found, str) and found == self.text

    def _in_order(self, found: Any) -> bool:
        limit = self.number
        if limit is None or isinstance(found, bool) or not isinstance(found, int | float):
            return False
        if found == limit:
            return self.operator in ("<=", ">=")
        return found < limit if self.operator in ("<", "<=") else found > limit


@dataclass(frozen=True, slots=True)
class Condition:
    """Tests that must all hold."""

    tests: tuple[Comparison, ...]

    def holds(self, value: Callable[[str], Any], labels: Mapping[str, str]) -> bool:
        """Whether all tests are true. `value` gives a shared value by its key, None when it is not set."""
        return all(
            test.holds(labels.get(test.subject) if test.is_label else value(test.subject)) for test in self.tests
        )


@lru_cache(maxsize=1000)  # a roster has a few; parsed when it is loaded, looked up in each turn
def parse(text: str) -> Condition:
    """The condition that `text` says; ValueError with what is wrong and what is allowed."""
    tests: list[Comparison] = []
    at = 0
    while True:
        match = _TEST.match(text, at)
        if match is None:
            raise ValueError(f"cannot read {text[at:].strip()!r}; {HOW}")
        tests.append(_comparison(match))
        at = match.end()
        if at == len(text):
            return Condition(tuple(tests))
        joined = _AND.match(text, at)
        if joined is None:
            raise ValueError(f"cannot read {text[at:].strip()!r}; {HOW}")
        at = joined.end()


def _comparison(match: re.Match[str]) -> Comparison:
    subject, bare = match["subject"], match["bare"]
    word = " ".join(match["operator"].split())
    text = next(found for found in (match["double"], match["single"], bare) if found is not None)
    if bare == "set" and word in ("is", "is not"):
        return Comparison(subject, "set" if word == "is" else "not set")
    operators: Mapping[str, Operator] = {
        "is": "==",
        "is not": "!=",
        "==": "==",
        "!=": "!=",
        "<": "<",
        ">": ">",
        "<=": "<=",
        ">=": ">=",
    }
    found = Comparison(subject, operators[word], text)
    if word in ("<", ">", "<=", ">=") and found.number is None:
        raise ValueError(f"`{word}` compares with a number, got {text!r}")
    return found
