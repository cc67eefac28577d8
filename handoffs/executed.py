"""What a run has done although nothing of it was said: calls that may have changed something, with their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from handoffs.remembered import led_to
from handoffs.roster import AgentSpec
from handoffs.tools import SEARCH, TRANSFER
from handoffs.waiting import PENDING
from sessions.isolated import pair_safe
from sessions.model import Item

FACT_CHARS = 300  # of the arguments, and of the result: enough for a number and a name; the record has all of it


def executed(spec: AgentSpec, items: Iterable[Item]) -> list[Item]:
    """The calls of `items` that the agent must not forget, and their results. What only looked something up is not
    among them: nothing is lost with it, and it may hold what must not be said.

    Reasoning that led to such a call stays with it; the model APIs refuse one without the other.
    """
    whole = pair_safe(list(items))
    only_looks = {*spec.read_only, SEARCH, TRANSFER}
    kept = {
        item["call_id"] for item in whole if item.get("type") == "function_call" and item.get("name") not in only_looks
    }
    kept -= {item["call_id"] for item in whole if item.get("output") == PENDING}
    return [
        item
        for place, item in enumerate(whole)
        if item.get("call_id") in kept
        or (item.get("type") == "reasoning" and led_to(whole[place + 1 :], lambda made: made.get("call_id") in kept))
    ]


def facts(done: Sequence[Item]) -> tuple[str, ...]:
    """The same for the next owner, a line for each call."""
    results = {item["call_id"]: item for item in done if item.get("type") == "function_call_output"}
    return tuple(
        f"{item['name']}({_short(item.get('arguments'))}) was called; its result: "
        f"{_short(results[item['call_id']].get('output'))}"
        for item in done
        if item.get("type") == "function_call"
    )


def _short(value: object) -> str:
    text = str(value or "")
    return text if len(text) <= FACT_CHARS else f"{text[:FACT_CHARS]} [...]"
