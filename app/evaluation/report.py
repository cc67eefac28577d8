"""The result of an evaluation: what was measured, with which settings, and the counts behind every number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.evaluation.score import Ratio


@dataclass(frozen=True)
class Report:
    """One run. `metrics` maps a name to its ratio; `confusion` right owner -> owner after the message -> count."""

    data_set: str
    kind: str
    settings: Mapping[str, Any]
    note: str
    agents: int
    conversations: int
    messages: int
    seconds: float
    metrics: Mapping[str, Ratio]
    confusion: Mapping[str, Mapping[str, int]]

    def summary(self) -> list[tuple[str, str]]:
        """Rows for a table: name, and `0.912 (456 of 500)`."""
        return [(name, _shown(ratio)) for name, ratio in self.metrics.items()]

    def per_agent(self) -> dict[str, Ratio]:
        """How many of an agent's messages it owned afterwards."""
        return {owner: Ratio(row.get(owner, 0), sum(row.values())) for owner, row in self.confusion.items()}

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as written to JSON."""
        return {
            "data_set": self.data_set,
            "kind": self.kind,
            "settings": dict(self.settings),
            "note": self.note,
            "agents": self.agents,
            "conversations": self.conversations,
            "messages": self.messages,
            "seconds": round(self.seconds, 1),
            "metrics": {name: _plain(ratio) for name, ratio in self.metrics.items()},
            "per_agent": {owner: _plain(ratio) for owner, ratio in self.per_agent().items()},
            "confusion": {owner: dict(row) for owner, row in self.confusion.items()},
        }

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False)


def _shown(ratio: Ratio) -> str:
    return f"{ratio.value:.3f} ({ratio.hits} of {ratio.total})" if ratio.value is not None else "none to measure"


def _plain(ratio: Ratio) -> dict[str, Any]:
    value = None if ratio.value is None else round(ratio.value, 4)
    return {"value": value, "hits": ratio.hits, "total": ratio.total}
