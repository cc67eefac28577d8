"""A desk of one agent that has tools itself, as in docs/how-to/write-a-tool.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from agents import RunContextWrapper, function_tool
from pydantic import Field

from app.offline.encoder import SentenceEncoder
from app.offline.provider import OfflineProvider
from handoffs.context import TurnContext
from handoffs.roster import AgentSpec, DeskSpec, QueueSpec, Roster
from tests.app.offline.talk import Talk

OrderNumber = Annotated[
    str, Field(description="Order number, like K-1001", json_schema_extra={"pattern": r"^K-[0-9]{4}$"})
]


@function_tool
def track_parcel(ctx: RunContextWrapper[TurnContext], order_number: OrderNumber) -> str:
    """Where is my parcel, has it been sent, when does my order arrive?"""
    return f"Your parcel for order {order_number} left Hamburg."


@pytest.fixture
def kites(encoder: SentenceEncoder, tmp_path: Path) -> Talk:
    parcels = AgentSpec(
        id="parcels",
        name="Parcels",
        intended_use="Where a parcel is, and when it arrives.",
        examples=("where is my parcel", "my order has not arrived"),
        transfer_to=("human:support",),
        instructions="You tell customers where their parcel is.",
    )
    desk = DeskSpec(name="Kites", start="parcels", queues={"support": QueueSpec(name="our support team")})
    roster = Roster(desk=desk, agents={"parcels": parcels}, version="1")
    return Talk(roster, OfflineProvider(roster, encoder, delay_s=0), tmp_path, {"parcels": [track_parcel]})


@pytest.mark.parametrize("asked", [("where is my parcel", "K-1001"), ("where is my parcel K-1001?",)])
async def test_a_bare_number_asks_the_start_agents_tool_again(kites: Talk, asked: tuple[str, ...]) -> None:
    """A second number calls the same tool with the new value, at the start agent as anywhere."""
    for text in asked:
        await kites.say(text)
    for number in ("K-9999", "K-1002"):
        turn = await kites.say(number)
        assert turn.calls == [("parcels", "track_parcel", f'{{"order_number": "{number}"}}')]


async def test_a_number_about_nothing_is_asked_about(kites: Talk) -> None:
    """Without an earlier request a number calls nothing."""
    turn = await kites.say("K-1001")
    assert turn.calls == [] and turn.answer
