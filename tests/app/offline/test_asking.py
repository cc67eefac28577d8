"""The offline model at an agent that can ask colleagues: it asks the right one, once, and says the answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, FunctionTool, ModelProvider, ModelSettings, Runner, function_tool
from agents.items import ToolCallItem

from app.offline.encoder import SentenceEncoder
from app.offline.provider import OfflineProvider
from app.offline.work import Done, Unknown, answered
from handoffs.ask import answered as fenced
from handoffs.context import TurnContext
from handoffs.roster import AgentSpec, DeskSpec, Roster
from handoffs.state import RouterState
from handoffs.team import Team
from tests.app.offline.conftest import find_booking
from tests.app.offline.talk import SharedValues

HELP = (
    "which room did I book",
    "what is the status of my booking",
    "is my booking confirmed",
)
MONEY = ("I need an invoice", "why was my card charged", "can I pay in cash")


@dataclass(frozen=True)
class Offline:
    """The offline model for every agent."""

    provider: ModelProvider
    settings: ModelSettings = field(default_factory=ModelSettings)

    def name_for(self, agent: AgentSpec) -> str:
        return f"offline/{agent.id}"


def desk() -> Roster:
    rooms = AgentSpec(id="rooms", intended_use="Bookings of rooms.", examples=HELP, instructions="You know rooms.")
    money = AgentSpec(id="money", intended_use="Invoices and payments.", examples=MONEY, instructions="You know money.")
    host = AgentSpec(id="host", intended_use="Helps guests.", ask=("rooms", "money"), instructions="You are the host.")
    agents = {agent.id: agent for agent in (host, rooms, money)}
    return Roster(desk=DeskSpec(name="Hotel", start="host"), agents=agents, version="1")


async def say(encoder: SentenceEncoder, folder: Path, text: str, tools: dict[str, tuple[FunctionTool, ...]]) -> Any:
    """The host's whole run for one message."""
    roster = desk()
    team = Team.load(roster, Offline(OfflineProvider(roster, encoder, delay_s=0)), data_dir=folder)
    team = replace(team, tools={**team.tools, **tools}, _agents={})
    context = TurnContext("c_1", "host", 1, "en", SharedValues(), folder)
    host: Agent[TurnContext] = team.agent(roster["host"], context, RouterState())
    return await Runner.run(host, text, context=context, run_config=team.run_config)


def called(result: Any) -> list[str]:
    return [str(getattr(item.raw_item, "name", "")) for item in result.new_items if isinstance(item, ToolCallItem)]


async def test_the_colleague_whose_subject_it_is_is_asked_once(encoder: SentenceEncoder, tmp_path: Path) -> None:
    """The asked agent works with its own tool on the whole message; its words are the answer, without the fence."""
    text = "What is the status of my booking? The number is BK-4711."
    result = await say(encoder, tmp_path, text, {"rooms": (find_booking,)})

    assert called(result) == ["ask_rooms"]
    assert result.final_output.startswith("Booking BK-4711 is confirmed for a double room.")


async def test_a_failed_colleague_is_not_asked_again(encoder: SentenceEncoder, tmp_path: Path) -> None:
    """One failed call, then words of the host's own; nothing of the failure's text is shown."""

    @function_tool(failure_error_function=None)
    def broken(booking_number: str) -> str:
        """What is the status of my booking, which room did I book?"""
        raise RuntimeError("no database")

    result = await say(encoder, tmp_path, "what is the status of my booking BK-4711?", {"rooms": (broken,)})

    assert len(called(result)) <= 1
    assert result.final_output
    assert "gave no answer" not in result.final_output


@pytest.mark.parametrize("text", ["hello", "thank you"])
async def test_small_talk_asks_nobody(encoder: SentenceEncoder, tmp_path: Path, text: str) -> None:
    """A colleague is asked when the message is about something."""
    assert called(await say(encoder, tmp_path, text, {})) == []


def test_a_colleagues_lines_are_read_back_as_they_were() -> None:
    """What the fence indents is taken apart again."""
    assert answered(fenced("rooms", "One.\nTwo.")) == Done("One.\nTwo.")
    assert answered(fenced("rooms", '{"verdict": "fine"}')) == Done("verdict: fine")
    assert answered("rooms gave no answer: it failed.") == Unknown()
