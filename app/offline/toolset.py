"""What the tools of a model call allow: where the conversation may go, what can be looked up, what can be done."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents import FunctionTool, Tool

from app.offline.slots import Slot, slots_of

TRANSFER = "transfer_to_agent"
SEARCH = "search_knowledge"
HUMAN = "human:"
DELEGATE = "delegate_"  # a contract takes planning, which this model cannot do
ASK = "ask_"  # a colleague that answers while this agent keeps the conversation
_LINE = re.compile(r"^\s*[-*]\s*([a-z][a-z0-9_:]*)\s*:\s*(.+)$", re.MULTILINE)
# Names that start like this only look something up; any other tool does something and needs an explicit wish.
READ_VERBS = frozenset(
    ("lookup", "look", "find", "get", "search", "track", "check", "list", "show", "read", "fetch", "view", "compare")
)


@dataclass(frozen=True)
class OwnTool:
    """One of the agent's own tools, as its schema describes it."""

    name: str
    description: str
    slots: tuple[Slot, ...]

    @property
    def asks(self) -> str:
        """The colleague that the tool asks; empty for any other tool."""
        return self.name.removeprefix(ASK) if self.name.startswith(ASK) else ""

    @property
    def only_reads(self) -> bool:
        """Asking counts: whether anything is done is for the colleague to decide, who reads the same wish."""
        return bool(self.asks) or self.name.split("_")[0] in READ_VERBS

    def texts(self) -> list[str]:
        """What stands for the tool when a message is compared with it: its name in words, its description's lines."""
        if self.asks:
            return [self.description.partition("\n")[0]]  # what the colleague is for; below it stands how to ask
        lines = [line.strip() for line in re.split(r"\n+|(?<=[.!?])\s+|(?<=[。！？])", self.description)]
        return list(dict.fromkeys([self.name.replace("_", " "), *(line for line in lines if len(line) > 3)]))


@dataclass(frozen=True)
class Toolset:
    """The tools of one call. `targets` maps an allowed target to its line in the transfer tool's description."""

    targets: Mapping[str, str]
    can_search: bool
    own: tuple[OwnTool, ...]

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(target for target in self.targets if not target.startswith(HUMAN))

    @property
    def humans(self) -> tuple[str, ...]:
        return tuple(target for target in self.targets if target.startswith(HUMAN))

    def asking(self, agent_id: str) -> OwnTool | None:
        """The tool that asks this agent, when there is no way to transfer to it."""
        ways = (tool for tool in self.own if tool.asks == agent_id and agent_id not in self.targets)
        return next(ways, None)

    def human_for(self, *subjects: str) -> str | None:
        """The human target for the first subject (agent id) that has one of its name, else the first; None without."""
        named = (HUMAN + subject for subject in subjects if HUMAN + subject in self.targets)
        return next(named, next(iter(self.humans), None))


def toolset_of(tools: Sequence[Tool]) -> Toolset:
    """Sort the SDK's tools; hosted tools (web search ...) are not for this model and are left out."""
    functions = {tool.name: tool for tool in tools if isinstance(tool, FunctionTool)}
    transfer = functions.get(TRANSFER)
    return Toolset(
        targets=_targets(transfer) if transfer else {},
        can_search=SEARCH in functions,
        own=tuple(
            OwnTool(tool.name, tool.description or "", slots_of(tool.params_json_schema))
            for name, tool in functions.items()
            if name not in (TRANSFER, SEARCH) and not name.startswith(DELEGATE)
        ),
    )


def _targets(tool: FunctionTool) -> dict[str, str]:
    slot = next((s for s in slots_of(tool.params_json_schema) if s.name == "agent_id"), None)
    lines = {found[1]: found[2].strip() for found in _LINE.finditer(tool.description or "")}
    allowed: tuple[Any, ...] = slot.options if slot else ()
    return {str(target): lines.get(str(target), "") for target in allowed}
