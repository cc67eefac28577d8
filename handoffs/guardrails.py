"""Guardrails of the OpenAI Agents SDK in an agent file: `guardrails: [no_card_numbers]`, functions in its tools.py.

The SDK runs them for each owner's run, so the new owner's check the message again after a transfer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents import (
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
)

from handoffs.errors import Problem
from handoffs.loader import suggest
from handoffs.roster import AgentSpec, Roster
from handoffs.sdk_clone import spared
from handoffs.toolbox import TOOLS, load_module

Guardrail = InputGuardrail[Any] | OutputGuardrail[Any]


@dataclass(frozen=True, slots=True)
class Tripped:
    """A guardrail that stopped a run: its name, and whether it looked at what came in or at what would go out."""

    name: str
    side: str


def tripped(error: BaseException | None) -> Tripped | None:
    """The guardrail that ended a run; None when something else did."""
    if isinstance(error, InputGuardrailTripwireTriggered | OutputGuardrailTripwireTriggered):
        side = "input" if isinstance(error, InputGuardrailTripwireTriggered) else "output"
        return Tripped(str(error.guardrail_result.guardrail.get_name()), side)
    return None


def defined_in(roster: Roster, agent: AgentSpec) -> Mapping[str, Guardrail]:
    """The guardrails of an agent's tools.py by their names. Raises what the file raises."""
    if not (agent.folder / TOOLS).is_file():
        return {}
    module = load_module(roster, f"{agent.id}.tools")
    found = {name: value for name, value in vars(module).items() if isinstance(value, InputGuardrail | OutputGuardrail)}
    return {**found, **{value.get_name(): value for value in found.values()}}


def of_agent(roster: Roster, agent: AgentSpec) -> tuple[list[InputGuardrail[Any]], list[OutputGuardrail[Any]]]:
    """What the agent's file names, for its input and for its output. One that is missing is `problems`' to report."""
    if not agent.guardrails:
        return [], []
    defined = defined_in(roster, agent)
    named = [defined[name] for name in agent.guardrails if name in defined]
    outputs = [spared(one, one.guardrail_function) for one in named if isinstance(one, OutputGuardrail)]
    return [one for one in named if isinstance(one, InputGuardrail)], outputs


def problems(roster: Roster, agent: AgentSpec) -> list[Problem]:
    """A Problem for each guardrail that the agent names and its tools.py does not define."""
    if not agent.guardrails:
        return []
    try:
        defined = defined_in(roster, agent)
    except (Exception, SystemExit):  # the tools' own check says why the file cannot be loaded
        return []
    found = []
    for place, name in enumerate(agent.guardrails):
        if name not in defined:
            field = f"guardrails.{place}"
            exist = f"guardrails there: {', '.join(sorted(defined))}" if defined else "it defines no guardrail"
            hint = "put @input_guardrail or @output_guardrail (from agents import ...) above the function"
            message = f"{agent.id}/{TOOLS} has no guardrail `{name}`{suggest(name, defined)} ({exist}); {hint}"
            found.append(Problem(agent.file, agent.lines.get(field, 0), field, message))
    return found
