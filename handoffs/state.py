"""What the router itself remembers of a conversation. Stored by the store as opaque `meta`, in the same commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from handoffs.roster import Step, Then
from handoffs.waiting import Rest


class RouterState(BaseModel):
    """Router memory. `trail` holds this turn's transfers as `from>to`, `plan` the agents that are still to speak in it
    (`then:` of the agent files); both are emptied when the turn ends.

    `transfers` counts them over the whole conversation, `language` is the customer's. `labels` are results that a route
    can branch on (`approval.issue_refund` -> `refused`), next to the shared values. `summary` tells what was said
    up to the message `summary_seq`, for agents with `history: {mode: summary}`.
    `passing` are the shared values that live as long as this turn, under its id; `customer` is the visitor whose
    conversation this is, if the door knows them. `rest`: the turn waits for somebody's decision.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    language: str = ""
    transfers: int = 0
    trail: tuple[str, ...] = ()
    plan: tuple[Then, ...] = ()
    roster: str = ""
    labels: Mapping[str, str] = Field(default_factory=dict)
    summary: str = ""
    summary_seq: int = 0
    passing: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    customer: str = ""
    rest: Rest | None = None

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> RouterState:
        return cls.model_validate(meta)

    def moved(self, origin: str, target: str, *, plan: tuple[Step, ...] = ()) -> RouterState:
        """After a transfer between AI agents or to a queue. A transfer that nobody planned drops the plan."""
        step = f"{origin}>{target}"
        update = {"transfers": self.transfers + 1, "trail": (*self.trail, step), "plan": plan}
        return self.model_copy(update=update)

    def rested(self) -> RouterState:
        """After the turn's last commit: the customer is next."""
        return self.model_copy(update={"trail": (), "plan": (), "passing": {}})

    def dump(self) -> dict[str, Any]:
        return self.model_dump(exclude_defaults=True)


def detect_language(text: str, languages: tuple[str, ...], current: str) -> str:
    """The desk language that `text` is written in, by script; `current` when the text does not say (a number, "ok").

    Only scripts are told apart, so the first desk language in Latin letters stands for all of them.
    """
    han = sum("\u3400" <= char <= "\u9fff" for char in text)
    latin = sum(char.isascii() and char.isalpha() for char in text)
    chinese = next((code for code in languages if code.partition("-")[0] in {"zh", "ja"}), "")
    other = next((code for code in languages if code.partition("-")[0] not in {"zh", "ja"}), "")
    if chinese and han >= 2 and han * 4 >= latin:  # one Chinese word says about as much as four letters
        return chinese
    if other and latin >= 8 and not han:
        return current if current and current != chinese else other
    return current or (languages[0] if languages else "en")
