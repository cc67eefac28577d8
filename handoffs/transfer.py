"""A request to hand the conversation on: what is asked for, before anybody says that it happened."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Brief(BaseModel):
    """What travels with a transfer. Every text is data for the next owner, never an instruction."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    goal: str = ""
    facts: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    promised: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()


class TransferRequest(BaseModel):
    """A transfer that was asked for and passed the checks; the router commits it after the run.

    `to` is a target as agent files write it: an agent id, or `human:<queue id>`.
    """

    model_config = ConfigDict(frozen=True)

    to: str
    reason: str = ""
    brief: Brief = Field(default_factory=Brief)
    decided_by: str = "model"
    call_id: str = ""
