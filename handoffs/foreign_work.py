"""History mode `full`: what the previous agents did, told in the third person, between the messages it led to.

An agent's own history does not say when its items were made, so its runs are found again in the log by what was said.
Reasoning is left out; a call is told with its result or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from handoffs.history import Line, is_note, quote, told
from sessions.model import Item

Change = Callable[[str], str]

MAX_ARGUMENTS = 500  # characters of one call's arguments
MAX_RESULT = 1500  # characters of one result
MAX_TOLD = 16_000  # characters of all of it: about 4,000 tokens that every later call of the new owner pays for


@dataclass
class Round:
    """One run of an agent: what it was asked, what it called (told already), and what it said."""

    asked: str = ""
    calls: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n\n".join(self.said)


def tell(
    lines: Sequence[Line],
    work: Mapping[str, Sequence[Item]],
    *,
    silent: Collection[int] = (),
    show: Callable[[Line], Line] = lambda line: line,
    mask: Change = lambda text: text,
) -> list[str]:
    """The lines (oldest first) with the work of each agent (id -> its items) where it was done, quoted for a note.

    At most MAX_TOLD characters: the oldest are left out. Work on messages that are not among the lines is too.
    Of `silent` lines (by seq) only the work is told. `show` and `mask` change what is told, of lines and of work.
    """
    before: dict[int, list[str]] = {}
    after: dict[int, list[str]] = {}
    for agent_id, items in work.items():
        place = len(lines)
        for run in reversed(rounds(agent_id, items, mask)):
            found = _place(lines[:place], agent_id, run)
            if found is None:
                continue
            place = found
            where = after if lines[place].by == "customer" else before
            where[place] = (
                [*run.calls, *where.get(place, ())] if where is before else [*where.get(place, ()), *run.calls]
            )
    entries: list[str] = []
    for index, line in enumerate(lines):
        shown = () if line.seq in silent else (told(show(line)),)
        entries += [*before.get(index, ()), *shown, *after.get(index, ())]
    return _newest(entries)


def _place(lines: Sequence[Line], agent_id: str, run: Round) -> int | None:
    """Where a run is in the log: its message, else the customer's message that it was asked."""
    wanted = [(f"ai:{agent_id}", run.text)] if run.text else []
    for by, text in (*wanted, ("customer", run.asked)):
        for index in range(len(lines) - 1, -1, -1):
            if lines[index].by == by and lines[index].text.strip() == text.strip():
                return index
    return None


def rounds(agent_id: str, items: Iterable[Item], mask: Change) -> list[Round]:
    """An agent's items as runs: each begins with what the customer said."""
    found: list[Round] = []
    open_calls: dict[str, Item] = {}
    asking = False
    for item in items:
        if item.get("role") == "user":
            if not is_note(item):
                if not asking:
                    found.append(Round())
                found[-1].asked = _text(item)
                asking = True
            continue
        asking = False
        if not found:
            found.append(Round())
        if item.get("type") == "function_call":
            open_calls[str(item.get("call_id"))] = item
        elif item.get("type") == "function_call_output":
            call = open_calls.pop(str(item.get("call_id")), None)
            if call is not None:
                found[-1].calls.append(_call(agent_id, call, item, mask))
        elif item.get("role") == "assistant" and (text := _text(item).strip()):
            found[-1].said.append(text)
    return found


def _call(agent_id: str, call: Item, result: Item, mask: Change) -> str:
    arguments = cut(mask(str(call.get("arguments") or "{}")), MAX_ARGUMENTS)
    output = result.get("output", "")
    shown = cut(mask(output if isinstance(output, str) else _parts(output)), MAX_RESULT)
    name = str(call.get("name", "?"))
    return f"[{agent_id}] called {quote(name)} with {quote(arguments)}; the result was: {quote(shown)}"


def _text(item: Item) -> str:
    content = item.get("content", "")
    return content if isinstance(content, str) else _parts(content)


def _parts(content: object) -> str:
    parts = content if isinstance(content, list | tuple) else [content]
    return "".join(str(part.get("text", "")) if isinstance(part, Mapping) else str(part) for part in parts)


def cut(text: str, limit: int) -> str:
    """`text`, shortened with a mark."""
    return text if len(text) <= limit else text[:limit] + " [...]"


def _newest(entries: list[str]) -> list[str]:
    room = MAX_TOLD
    kept: list[str] = []
    for entry in reversed(entries):
        room -= len(entry)
        if room < 0:
            break
        kept.append(entry)
    return kept[::-1]
