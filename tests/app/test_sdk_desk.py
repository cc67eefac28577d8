"""A desk of SDK agents opened as in production: an MCP server over stdio, run for real, and the front door."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model, ModelSettings
from agents.mcp import MCPServerStdio
from agents.testing import function_call
from fastapi.testclient import TestClient

from app.building import open_desk
from app.errors import McpServerFailed
from app.main import create_app
from app.models import ModelChoice
from app.settings import Settings
from handoffs.approvals import decide
from handoffs.encoder import Encoder
from handoffs.roster import Roster
from handoffs.router import CustomerMessage
from handoffs.sdk_agents import with_route
from sessions.model import Token
from tests.handoffs.desks import Scripts, says, script
from tests.handoffs.test_router import texts
from tests.support import wait_until

QUEUES = {"support": {"name": "Support team", "hours": "always"}}
STOCK = """\
    import sys
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("stock")

    @server.tool()
    def reserve(item: str) -> str:
        \"\"\"Reserve an item.\"\"\"
        with open(sys.argv[1], "a") as file:
            file.write(item + "\\n")
        return f"{item} is reserved"

    server.run()
"""


def stock_server(folder: Path) -> MCPServerStdio:
    """A tool server in a process of its own, which writes down what it does."""
    program = folder / "stock.py"
    program.write_text(textwrap.dedent(STOCK))
    return MCPServerStdio(
        name="stock", params={"command": sys.executable, "args": [str(program), str(folder / "reserved")]}
    )


def scripted(models: dict[str, Model]) -> Callable[[Settings, Roster, Callable[[], Encoder]], ModelChoice]:
    def choose(settings: Settings, roster: Roster, encoder: Callable[[], Encoder]) -> ModelChoice:
        return ModelChoice(Scripts(models), "scripted", "scripted", offline=False, settings=ModelSettings())

    return choose


async def ask(desk: Any, conversation_id: str, text: str) -> list[Any]:
    await desk.router.receive(conversation_id, CustomerMessage("m1", text))
    await wait_until("the turn ends", lambda: desk.router.running == 0)
    events: list[Any] = await desk.store.read(conversation_id)
    return events


async def test_tools_of_an_mcp_server_are_offered_called_and_written_down(
    valkey_dir: Path, tmp_path: Path, conversation_id: str
) -> None:
    """handoffs.md 9: the desk connects the server; its calls are in the ledger like those of every tool."""
    server = stock_server(tmp_path)
    model = script([function_call("reserve", {"item": "Swift"}, call_id="c1")], [says("Reserved.")])
    roster = Roster.from_agents(Agent(name="Kites", mcp_servers=[server], model=model), queues=QUEUES)
    settings = Settings(data_dir=valkey_dir)

    async with open_desk(settings, roster=roster, choose=scripted({})) as desk:
        kept: list[tuple[str, str]] = []
        finish = desk.store.finish_call

        async def recorded(conversation: str, token: Token, key: str, result: str) -> Any:
            kept.append((key, result))
            return await finish(conversation, token, key, result)

        desk.store.finish_call = recorded  # type: ignore[method-assign, assignment]  # the commit clears the journal
        events = await ask(desk, conversation_id, "reserve a Swift")
        assert server.session is not None

    assert texts(events, "ai:kites") == ["Reserved."]
    assert "Swift is reserved" in str(model.calls[1].input)
    assert (tmp_path / "reserved").read_text() == "Swift\n"
    ((key, result),) = kept
    assert key.startswith("kites:reserve:") and "Swift is reserved" in result
    assert server.session is None


async def test_mcp_tool_may_need_approval_and_is_then_called_once(
    valkey_dir: Path, tmp_path: Path, conversation_id: str
) -> None:
    """handoffs.md 8: `approval` names a tool of an MCP server; the server does it when somebody has agreed, once."""
    reserved = tmp_path / "reserved"
    call = function_call("reserve", {"item": "Swift"}, call_id="c1")
    kites = Agent[Any](name="Our Kites", mcp_servers=[stock_server(tmp_path)], model=script([call], [says("Done.")]))
    roster = Roster.from_agents(with_route(kites, approval=["reserve"]), queues=QUEUES)

    async with open_desk(Settings(data_dir=valkey_dir), roster=roster, choose=scripted({})) as desk:
        await ask(desk, conversation_id, "reserve a Swift")
        (approval,) = await desk.store.approvals(conversation_id)
        before = reserved.exists()
        await decide(desk.store, conversation_id, approval.approval_id, "granted", by="human:ann")

        async def done() -> bool:
            return "Done." in texts(await desk.store.read(conversation_id), "ai:our_kites")

        await wait_until("the agent goes on", done)

    assert (before, reserved.read_text()) == (False, "Swift\n")
    assert (approval.call["tool"], approval.call["agent"]) == ("reserve", "our_kites")


async def test_desk_whose_mcp_server_is_dead_does_not_open_and_says_which(valkey_dir: Path) -> None:
    """handoffs.md 11: a mistake in a command is told at start, not to the first customer."""
    dead = MCPServerStdio(name="stock", params={"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]})
    roster = Roster.from_agents(Agent(name="Kites", mcp_servers=[dead], model=script()), queues=QUEUES)

    with pytest.raises(McpServerFailed, match="MCP server 'stock' cannot be connected"):
        async with open_desk(Settings(data_dir=valkey_dir), roster=roster, choose=scripted({})):
            raise AssertionError("it opened")


def test_create_app_serves_a_roster_from_python(valkey_dir: Path) -> None:
    """architecture.md: `create_app(settings, roster=...)` is the whole server over SDK agents."""
    roster = Roster.from_agents(Agent(name="前台"), queues=QUEUES, languages=("zh", "en"))
    app = create_app(Settings(data_dir=valkey_dir), roster=roster)

    with TestClient(app) as client:
        ready = client.get("/readyz")

    assert ready.status_code == 200, ready.text
