"""Opening hours of a human queue: when are people there?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTES_A_DAY = 24 * 60
_RANGE = re.compile(r"\s*(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})\s*")
_EXAMPLE = 'such as {mon-fri: "09:00-18:00", sat: "10:00-14:00"}'


class Hours(BaseModel):
    """`always`, or a time zone and the ranges of each day: {timezone: Europe/Berlin, open: {mon-fri: "09:00-18:00"}}.

    A day that is not named is closed. A range may end at 24:00 but not run over midnight: write two.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    always: bool = False
    timezone: str = "UTC"
    open: Mapping[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _always_is_a_word(cls, value: Any) -> Any:
        if value == "always":
            return {"always": True}
        if not isinstance(value, Mapping):
            raise PydanticCustomError("hours", "expected `always`, or timezone: and open: " + _EXAMPLE)
        return value

    @field_validator("timezone")
    @classmethod
    def _zone_exists(cls, value: str) -> str:
        try:
            _zone(value)
        except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError; odd names raise the others
            raise PydanticCustomError(
                "timezone", "{got} is not a time zone such as Europe/Berlin", {"got": repr(value)}
            ) from None
        return value

    @field_validator("open")
    @classmethod
    def _ranges_are_readable(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for days, ranges in value.items():
            _days(days)
            _minutes(ranges)
        return value

    @model_validator(mode="after")
    def _open_sometimes(self) -> Hours:
        if not self.always and not self.open:
            raise PydanticCustomError("hours", "expected `always`, or open: " + _EXAMPLE)
        return self

    def is_open(self, at: datetime) -> bool:
        """Whether `at` (an aware datetime) is inside one of the ranges."""
        if self.always:
            return True
        local = at.astimezone(_zone(self.timezone))
        day, minute = local.weekday(), _minute(local.time())
        return any(
            day in _days(days) and any(start <= minute < end for start, end in _minutes(ranges))
            for days, ranges in self.open.items()
        )


def _zone(name: str) -> tzinfo:
    """The time zone. UTC needs no database: a minimal machine without tzdata has it too."""
    return UTC if name == "UTC" else ZoneInfo(name)


def _minute(at: time) -> int:
    return at.hour * 60 + at.minute


def _days(text: str) -> range | tuple[int, ...]:
    """Weekday numbers of "mon", "mon-fri" or "fri-mon" (round the week)."""
    first, dash, last = (part.strip().lower() for part in text.partition("-"))
    if first not in DAYS or (dash and last not in DAYS):
        raise PydanticCustomError(
            "day",
            "{got} is not a day such as mon or mon-fri (days: {days})",
            {"got": repr(text), "days": ", ".join(DAYS)},
        )
    start, end = DAYS.index(first), DAYS.index(last or first)
    return tuple((start + step) % 7 for step in range((end - start) % 7 + 1))


def _minutes(text: str) -> list[tuple[int, int]]:
    """Ranges of minutes of "09:00-12:00, 13:00-18:00"."""
    found = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        start, end = (int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])) if match else (0, 0)
        if not match or not start < end <= MINUTES_A_DAY or int(match[2]) > 59 or int(match[4]) > 59:
            raise PydanticCustomError("range", '{got} is not a time range such as "09:00-18:00"', {"got": repr(part)})
        found.append((start, end))
    return found
