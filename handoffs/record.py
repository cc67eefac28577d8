"""The record of a run as one thing: the parts that its commits have kept, put together and counted. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Part = Mapping[str, Any]
MARK = "~"  # between conversation and run in an id: no conversation's id has one, and no address needs to escape it
USAGE = ("in", "out", "cached", "reasoning")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: `parts` in their order, one for each owner that spoke (as handoffs/recorder.py makes them).

    `run` is the epoch of its claim. `whole` is False when parts are gone or something in one was cut.
    """

    conversation_id: str
    run: str
    parts: tuple[Part, ...]

    @property
    def id(self) -> str:
        return f"{self.conversation_id}{MARK}{self.run}"

    @property
    def whole(self) -> bool:
        numbers = [part.get("part") for part in self.parts]
        return numbers == list(range(len(numbers))) and not any(part.get("cut") for part in self.parts)

    @property
    def first(self) -> Part:
        """The part with what was there when the run began; an empty one when it is gone."""
        return self.parts[0] if self.parts[0].get("part") == 0 else {}

    @property
    def messages(self) -> list[Part]:
        """The customer's messages that it worked on, each once."""
        found = {message["seq"]: message for part in self.parts for message in part.get("messages", ())}
        return [found[seq] for seq in sorted(found)]

    @property
    def calls(self) -> list[Part]:
        """All calls of models."""
        return [call for part in self.parts for call in part.get("calls", ())]

    @property
    def transfers(self) -> list[dict[str, str]]:
        """Who handed on to whom, and who decided it."""
        return [
            {"from": part["owner"], "to": part["after"], "decided_by": part["transfer"].get("decided_by", "")}
            for part in self.parts
            if part.get("transfer")
        ]

    @property
    def refusals(self) -> list[Part]:
        return [refusal for part in self.parts for refusal in part.get("refusals", ())]

    @property
    def error(self) -> Part | None:
        """The last error, also when somebody else then answered."""
        return next((part["error"] for part in reversed(self.parts) if part.get("error")), None)

    @property
    def usage(self) -> dict[str, int]:
        """Tokens of all calls in sum: `in`, `out`, `cached`, `reasoning`."""
        return usage_of(self.calls)


def usage_of(calls: Iterable[Part]) -> dict[str, int]:
    """Tokens of these calls in sum."""
    used = [call.get("usage", {}) for call in calls]
    return {name: sum(counts.get(name, 0) for counts in used) for name in USAGE}


def joined(conversation_id: str, rows: Iterable[Part]) -> list[RunRecord]:
    """The runs of a conversation, oldest first, from its records in the order in which they were kept."""
    runs: dict[str, dict[int, Part]] = {}
    for row in rows:
        runs.setdefault(str(row.get("run", "")), {})[int(row.get("part", 0))] = row
    return [RunRecord(conversation_id, run, tuple(parts[n] for n in sorted(parts))) for run, parts in runs.items()]


def split_id(run_id: str) -> tuple[str, str]:
    """Conversation and run that an id names; both empty when it is none."""
    conversation_id, mark, run = run_id.rpartition(MARK)
    return (conversation_id, run) if mark and run.isascii() and run.isdigit() else ("", "")


def outputs(part: Part) -> Iterator[Mapping[str, Any]]:
    """Every item that the owner's model gave in this part; not those of agents that it asked."""
    for call in part.get("calls", ()):
        if not call.get("path") and not call.get("dropped"):
            yield from call.get("output", ())


def tool_calls(part: Part) -> list[dict[str, Any]]:
    """Calls of tools with their arguments (JSON text) and results; `result` is missing when there was none."""
    results = {result["call_id"]: result["output"] for result in part.get("results", ())}
    return [
        {
            "call_id": item["call_id"],
            "name": item.get("name", ""),
            "arguments": item.get("arguments", ""),
            **({"result": results[item["call_id"]]} if item["call_id"] in results else {}),
        }
        for item in outputs(part)
        if item.get("type") == "function_call" and item.get("call_id")
    ]


def newest_first(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs in the order of lists: by when they began, newest first."""
    return sorted(runs, key=lambda run: (-int(run.run or 0), run.conversation_id))
