"""The encoder (loaded once), a small desk in memory, and conversations over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
from agents import FunctionTool, RunContextWrapper, function_tool
from pydantic import Field

from app.offline.encoder import SentenceEncoder
from app.offline.provider import OfflineProvider
from handoffs.context import TurnContext
from handoffs.knowledge import Knowledge, split
from handoffs.roster import AgentSpec, DeskSpec, QueueSpec, Roster
from tests.app.offline.talk import Talk

BookingNumber = Annotated[
    str,
    Field(
        description="Booking number, like BK-4711 | 预订号，例如 BK-4711", json_schema_extra={"pattern": r"^BK-\d{4}$"}
    ),
]

HOURS = """\
# At the hotel

## Breakfast

Breakfast is served from 7 to 10:30, on Sundays until noon.

## 早餐

早餐时间为7点到10点半，周日到中午12点。

## Parking

Parking in our garage costs 15 euros a night. Cars over two metres high do not fit.
"""


@function_tool
def find_booking(ctx: RunContextWrapper[TurnContext], booking_number: BookingNumber) -> str:
    """What is the status of my booking, which room did I book and when?"""
    if ctx.context.language == "zh":
        return f"预订 {booking_number} 已确认。"
    return f"Booking {booking_number} is confirmed for a double room. Would you like me to cancel the booking?"


@function_tool
def cancel_booking(
    ctx: RunContextWrapper[TurnContext],
    booking_number: BookingNumber,
    reason: Annotated[str, Field(description="Why, in the customer's words")],
) -> str:
    """Cancel the booking of a room."""
    return f"Booking {booking_number} is cancelled ({reason})."


@pytest.fixture(scope="session")
def encoder() -> SentenceEncoder:
    return SentenceEncoder()


@pytest.fixture(scope="session")
def roster() -> Roster:
    agents = [
        AgentSpec(
            id="welcome",
            name={"en": "Welcome desk", "zh": "接待"},
            intended_use="Greets guests and brings in the right colleague.",
            transfer_to=("rooms", "money", "human:people"),
            instructions="You are the welcome desk.",
        ),
        AgentSpec(
            id="rooms",
            name={"en": "Room bookings", "zh": "客房预订"},
            intended_use="Booking a room, changing or cancelling a booking, breakfast, parking and check-in.",
            examples=(
                "I want to book a double room",
                "can I change my booking to next week",
                "please cancel my booking",
                "what is the status of my booking",
                "when is breakfast",
                "do you have parking",
                "我想订一间房",
                "帮我取消预订",
            ),
            transfer_to=("money", "human:people"),
            returns_to="welcome",
            instructions="You look after rooms.",
        ),
        AgentSpec(
            id="money",
            name={"en": "Payments", "zh": "付款"},
            intended_use="Invoices, payments by card, wrong charges and refunds.",
            examples=(
                "my card was charged twice",
                "I was charged for the minibar but took nothing",
                "send me the invoice again",
                "where is my refund",
                "which cards do you accept",
                "the amount is wrong",
                "我被重复扣款了",
                "我需要发票",
            ),
            transfer_to=("rooms", "human:people"),
            returns_to="welcome",
            instructions="You look after payments.",
        ),
    ]
    desk = DeskSpec(
        name="Hotel", start="welcome", languages=("en", "zh"), queues={"people": QueueSpec(name="our team")}
    )
    return Roster(desk=desk, agents={agent.id: agent for agent in agents}, version="1")


@pytest.fixture(scope="session")
def provider(roster: Roster, encoder: SentenceEncoder) -> OfflineProvider:
    return OfflineProvider(roster, encoder, delay_s=0)


@pytest.fixture
def talk(roster: Roster, provider: OfflineProvider, encoder: SentenceEncoder, tmp_path: Path) -> Callable[..., Talk]:
    """Makes a conversation: `talk(owner="rooms", streamed=True)`."""
    tools: dict[str, list[FunctionTool]] = {"rooms": [find_booking, cancel_booking]}
    knowledge = {"rooms": Knowledge(split("rooms/house.md", HOURS), encoder)}

    def make(owner: str = "", language: str = "en", streamed: bool = False) -> Talk:
        return Talk(roster, provider, tmp_path, tools, knowledge, language, streamed, owner)

    return make
