"""Connections to the MCP servers of SDK agents, open as long as the desk is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from agents.mcp import MCPServer, MCPServerManager

from app.errors import McpServerFailed

CONNECT_S = 20.0  # a server of its own process may have to install itself first (npx, uvx)


@asynccontextmanager
async def connected(servers: Sequence[MCPServer]) -> AsyncIterator[None]:
    """Connect the servers that nobody has connected yet, and close those again; McpServerFailed names a dead one."""
    waiting = [server for server in servers if getattr(server, "session", None) is None]
    if not waiting:
        yield
        return
    manager = MCPServerManager(waiting, connect_timeout_seconds=CONNECT_S, connect_in_parallel=True)
    async with manager:
        for server, error in manager.errors.items():
            raise McpServerFailed(server.name, f"{type(error).__name__}: {error}") from None
        yield
