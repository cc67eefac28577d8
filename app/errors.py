"""What can go wrong at the front door, light enough to import for `frontdesk --help`.

FrontdeskError (sessions.errors)  the root
  SettingsInvalid                 a variable cannot be used; `problems` has every one (in app.settings, with its words)
  ModelMisconfigured              the settings ask for a model that cannot be used
  McpServerFailed                 an MCP server of an agent cannot be connected
"""

from __future__ import annotations

from sessions.errors import FrontdeskError


class ModelMisconfigured(FrontdeskError):
    """The settings ask for a model that cannot be used; the message says which variable to set."""


class McpServerFailed(FrontdeskError):
    """The MCP server `name` of an agent cannot be connected; the desk does not start without it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"MCP server {name!r} cannot be connected: {why}")
        self.name = name
        self.why = why
