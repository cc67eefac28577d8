"""What an agent keeps of a run in its own history, when the run was not plain sailing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sessions.model import Item


def without_refused(items: Sequence[Item]) -> list[Item]:
    """`items` without refused transfer calls: a model that sees them later avoids those colleagues for no reason.

    Reasoning that led to nothing but such a call goes with it; the model APIs refuse reasoning without what it was for.
    """
    refused = {
        item["call_id"]
        for item in items
        if item.get("type") == "function_call_output" and str(item.get("output", "")).startswith("Not transferred")
    }
    if not refused:
        return list(items)
    return [
        item
        for place, item in enumerate(items)
        if item.get("call_id") not in refused
        and (
            item.get("type") != "reasoning"
            or led_to(items[place + 1 :], lambda made: made.get("call_id") not in refused)
        )
    ]


def led_to(after: Sequence[Item], kept: Callable[[Item], bool]) -> bool:
    """Whether the response that begins before `after` made anything that is `kept`."""
    made = False
    for item in after:
        kind = item.get("type")
        if kind == "function_call_output" or (kind == "reasoning" and made):
            return False
        if kind != "reasoning":
            made = True
            if kept(item):
                return True
    return False
