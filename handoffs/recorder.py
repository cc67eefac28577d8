"""The recorder of one turn: keeps references while agents run, and makes one JSON text of them for each commit.

A record must never cost a customer their answer: what cannot be written down is left out, and the record says so.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from sessions.model import Item, Pending, Recorded, Value, ValueWrite

if TYPE_CHECKING:
    from agents import ModelResponse

    from handoffs.transfer import TransferRequest

log = logging.getLogger("frontdesk.recorder")

PART_CHARS = 65_536  # of one owner's part; 50 of them are at most 3 MB of Redis for a conversation
TEXT_CHARS = 4_096  # what is left of each long text when a part is too large
DEEPEST_CUT = 12  # levels of a part that are looked through for long texts
ERROR_CHARS = 500  # as in the event turn.failed
DIGEST_BYTES = 8  # tells apart what two runs saw; it protects nothing


class Call:
    """One call of a model: what went in (by reference, hashed at the commit) and what came out.

    `path` leads from the owner to an agent that was asked as a tool; empty for the owner's own calls. `dropped`: the
    owner began again after it, and nothing of it was used.
    """

    __slots__ = ("_begun", "at", "dropped", "error", "input", "instructions", "items", "ms", "output", "path", "usage")

    def __init__(self, instructions: str | None, given: str | Sequence[Any], path: Sequence[str]) -> None:
        self.path = path
        self.dropped = False
        self.at = time.time()
        self._begun = time.perf_counter()
        self.instructions = instructions
        self.input = given
        self.items = 1 if isinstance(given, str) else len(given)  # the list may grow after the call
        self.ms = 0.0
        self.output: Sequence[Any] = ()
        self.usage: Any = None
        self.error = ""

    def answered(self, response: ModelResponse) -> None:
        """The model answered."""
        self.ms = (time.perf_counter() - self._begun) * 1000
        self.output = response.output
        self.usage = response.usage

    def failed(self, error: BaseException) -> None:
        """The model gave no answer (or was stopped)."""
        self.ms = (time.perf_counter() - self._begun) * 1000
        self.error = f"{type(error).__name__}: {error}"[:ERROR_CHARS]

    def data(self) -> dict[str, Any]:
        """As it is stored. Usage is counted in tokens."""
        seen = self.input if isinstance(self.input, str) else self.input[: self.items]
        found = {
            "at": int(self.at * 1000),
            "ms": round(self.ms, 1),
            "items": self.items,
            "input": digest(to_json(seen, fallback=str)),
            "instructions": digest((self.instructions or "").encode("utf-8", "replace")),
            "output": self.output,
            "usage": tokens(self.usage),
        }
        if self.dropped:
            found["dropped"] = True
        if self.path:
            found["path"] = self.path
        if self.error:
            found["error"] = self.error
        return found


class Recorder:
    """What happens in one turn. `run` is the epoch of its claim, which no other run of the conversation has."""

    def __init__(
        self,
        *,
        run: str,
        turn: str,
        attempt: int,
        roster: str,
        worker: str,
        meta: Mapping[str, Any],
        values: Mapping[str, Value],
        kept: bool = True,
    ) -> None:
        self.run = run
        self.model = ""  # the name that the owner's provider is asked for
        self._kept = kept
        self._first = {
            "turn": turn,
            "attempt": attempt,
            "roster": roster,
            "worker": worker,
            "meta": meta,
        }
        self._values = values
        self._part = -1
        self._began = time.time()
        self._calls: list[Call] = []
        self._pending: tuple[Pending, ...] = ()
        self._items: tuple[Item, ...] = ()
        self._text = ""
        self._error: dict[str, str] | None = None
        self._refusals: Sequence[Mapping[str, str]] = ()
        self.lasting: tuple[
            str, ...
        ] = ()  # names of the customer's own values that are set; what they hold stays there

    def begin(self, pending: tuple[Pending, ...]) -> None:
        """An owner starts to work on these messages."""
        self._part += 1
        self.model = ""
        self._began = time.time()
        self._calls, self._items, self._refusals = [], (), ()
        self._pending, self._text, self._error = pending, "", None

    def again(self, pending: tuple[Pending, ...]) -> None:
        """The same owner begins again, with these messages; what it did comes to nothing."""
        before = self._calls
        self._part -= 1
        self.begin(pending)
        self._calls = before
        for call in before:
            call.dropped = True

    def call(self, instructions: str | None, given: str | Sequence[Any], path: Sequence[str] = ()) -> Call:
        """A model is asked now; say `answered` or `failed` on the call that comes back."""
        call = Call(instructions, given, path)
        self._calls.append(call)
        return call

    def heard(
        self, text: str, items: tuple[Item, ...], refusals: Sequence[Mapping[str, str]], error: Exception | None
    ) -> None:
        """The owner's run is over. `items` are all that it added to its history, results of tools among them."""
        self._text, self._items, self._refusals = text, items, refusals
        if error is not None:
            self._error = {"type": type(error).__name__, "text": str(error)[:ERROR_CHARS]}

    def failed(self, why: str) -> None:
        """The run broke off, and nobody heard it out."""
        self._error = {"type": "Broken", "text": why[:ERROR_CHARS]}

    def part(
        self,
        outcome: str,
        owner: str,
        after: str,
        writes: Iterable[ValueWrite] = (),
        request: TransferRequest | None = None,
    ) -> Recorded:
        """The record of what the coming commit rests on. `owner` and `after` (who owns from then on) are owner refs.

        `outcome`: answered, transferred, failed (the defined next owner goes on, or the same one stays), waiting
        (until somebody decides about a call), or broken (nothing was committed: the turn was given back).
        """
        if not self._kept:
            return Recorded(self.run)
        try:
            found = self._data(outcome, owner, after, writes, request)
            text = to_json(found, exclude_none=True, fallback=str).decode()
            if len(text) > PART_CHARS:
                text = cut_to_size(text, found)
        except Exception as error:  # whatever a model or a tool gave, the customer gets the answer
            log.warning("a run could not be recorded: %s", error)
            lost = {"run": self.run, "part": self._part, "owner": owner, "after": after, "outcome": outcome}
            text = to_json({**lost, "cut": ["*"], "lost": type(error).__name__}).decode()
        return Recorded(self.run, text)

    def _data(
        self, outcome: str, owner: str, after: str, writes: Iterable[ValueWrite], request: TransferRequest | None
    ) -> dict[str, Any]:
        found: dict[str, Any] = {
            "run": self.run,
            "part": self._part,
            "owner": owner,
            "after": after,
            "outcome": outcome,
            "began": int(self._began * 1000),
            "ended": int(time.time() * 1000),
            "messages": [{"seq": m.seq, "id": m.message_id, "text": m.text} for m in self._pending],
            "model": self.model,
            "calls": [call.data() for call in self._calls],
            "text": self._text,
        }
        if self._part <= 0:
            found |= self._first
            found["values"] = {key: value.value for key, value in self._values.items()}
            if self.lasting:
                found["lasting"] = self.lasting
        results = [item for item in self._items if item.get("type") == "function_call_output"]
        if results:
            found["results"] = [{"call_id": item["call_id"], "output": item.get("output")} for item in results]
        if self._refusals:
            found["refusals"] = list(self._refusals)
        written = {write.key: write.value for write in writes}
        if written:
            found["writes"] = written
        if request is not None:
            found["transfer"] = request.model_dump(exclude_defaults=True, mode="json")
            found["transfer"]["decided_by"] = request.decided_by
        if self._error is not None:
            found["error"] = self._error
        return found


def digest(data: bytes) -> str:
    """Sixteen hex digits that stand for `data`."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def tokens(usage: Any) -> dict[str, int]:
    """The SDK's usage as `in`, `out`, `cached` and `reasoning` tokens; zeros are left out."""
    if usage is None:
        return {}
    found = {
        "in": usage.input_tokens,
        "out": usage.output_tokens,
        "cached": usage.input_tokens_details.cached_tokens,
        "reasoning": usage.output_tokens_details.reasoning_tokens,
    }
    return {name: count for name, count in found.items() if count}


def cut_to_size(text: str, found: Mapping[str, Any]) -> str:
    """The part again with its long texts cut and named in `cut`; when that is not enough, only its outline."""
    whole: dict[str, Any] = from_json(text)
    cut: list[str] = []
    whole = shortened(whole, "", cut)
    whole["cut"] = cut
    shorter = to_json(whole).decode()
    if len(shorter) <= PART_CHARS:
        return shorter
    outline = {
        key: whole[key] for key in ("run", "part", "owner", "after", "outcome", "began", "ended") if key in whole
    }
    first = {key: found[key] for key in ("turn", "attempt", "roster", "worker") if key in found}
    return to_json({**outline, **first, "cut": ["*"], "chars": len(text)}).decode()


def shortened(value: Any, path: str, cut: list[str], depth: int = 0) -> Any:
    """`value` with texts of at most TEXT_CHARS; the places of those that were longer go to `cut`."""
    if isinstance(value, str) and len(value) > TEXT_CHARS:
        cut.append(path)
        return f"{value[:TEXT_CHARS]}… ({len(value) - TEXT_CHARS} more characters are not recorded)"
    if depth == DEEPEST_CUT:
        return value
    if isinstance(value, dict):
        return {key: shortened(inner, f"{path}.{key}".lstrip("."), cut, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [shortened(inner, f"{path}.{place}", cut, depth + 1) for place, inner in enumerate(value)]
    return value
