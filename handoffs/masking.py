"""Sensitive values (desk.yaml `sensitive: true`) are masked wherever foreign text is shown: `[order_id hidden]`.

Only exact occurrences are found. A value of less than three characters would mask half a text, and is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from handoffs.roster import Roster
from handoffs.transfer import Brief, TransferRequest

SHORTEST = 3  # characters; a CVV has three
Replace = Callable[[str], str]


def unchanged(text: str) -> str:
    """The mask of a conversation without sensitive values."""
    return text


def masker(roster: Roster, value: Callable[[str], Any], *, readable: Collection[str] = ()) -> Replace:
    """A function that masks the set sensitive values in a text, except those of `readable`.

    Without any it gives texts back as they are. `value` gives a shared value by its key, None when it is not set.
    """
    marks: dict[str, str] = {}
    for key, contract in roster.desk.values.items():
        if contract.sensitive and key not in readable:
            marks |= {word.casefold(): f"[{key} hidden]" for word in _words(value(key))}
    if not marks:
        return unchanged
    longest_first = sorted(marks, key=len, reverse=True)
    # A number inside a longer one is something else; Chinese text has no spaces around a value
    pattern = "|".join(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])" for word in longest_first)
    found = re.compile(pattern, re.IGNORECASE)
    return lambda text: found.sub(lambda match: marks.get(match[0].casefold(), "[hidden]"), text)


def masked_request(request: TransferRequest, mask: Replace) -> TransferRequest:
    """The request with reason and brief masked."""
    if mask is unchanged:
        return request
    return request.model_copy(update={"reason": mask(request.reason), "brief": masked_brief(request.brief, mask)})


def masked_brief(brief: Brief, mask: Replace) -> Brief:
    """The brief with every text masked."""
    if mask is unchanged:
        return brief
    return Brief(
        goal=mask(brief.goal),
        facts=tuple(map(mask, brief.facts)),
        tried=tuple(map(mask, brief.tried)),
        promised=tuple(map(mask, brief.promised)),
        open_questions=tuple(map(mask, brief.open_questions)),
    )


def _words(value: Any) -> Iterator[str]:
    """The texts by which a value can be recognised: of a list or map, those of its entries."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Iterable) and not isinstance(value, str):
        for entry in value:
            yield from _words(entry)
    elif value is not None and not isinstance(value, bool) and len(str(value).strip()) >= SHORTEST:
        yield str(value).strip()
