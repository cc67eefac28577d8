"""`frontdesk runs replay RUN`: what the present agent files decide where a recorded run decided something."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from app.commands.output import safe
from handoffs.loader import load_roster
from handoffs.replay import Replayed, replay


def play(run: Mapping[str, Any], agents: Path) -> tuple[Replayed, str]:
    """Replay a run on the agent files in `agents`; what came out, and the version of that roster.

    Raises NotReplayable, RosterInvalid.
    """
    logging.getLogger("frontdesk").addHandler(logging.NullHandler())  # failures that are played are no news
    roster = load_roster(agents)
    return asyncio.run(replay(run, roster)), roster.version


def replay_json(run: Mapping[str, Any], played: Replayed, version: str) -> dict[str, Any]:
    """What a replay found, for programs."""
    return {
        "run": run["id"],
        "roster": {"then": run["roster"], "now": version},
        "same": played.same,
        "verdict": played.verdict,
        "differences": [asdict(difference) for difference in played.differences],
        "notes": list(played.notes),
        "then": [asdict(step) for step in played.then],
        "now": [asdict(step) for step in played.now],
    }


def replay_page(run: Mapping[str, Any], played: Replayed, version: str) -> RenderableType:
    """One line when the decisions are the same, else what is not, step by step: `-` was recorded, `+` comes out now."""
    rosters = f"roster {run['roster']}, the same" if run["roster"] == version else f"roster {run['roster']} → {version}"
    steps = f"{len(played.then)} step{'s' if len(played.then) != 1 else ''}"
    verdict = (played.verdict, "green" if played.same else "yellow" if played.unknown else "red")
    parts = [Text.assemble((safe(str(run["id"])), "bold"), "  ", verdict, (f"  {steps}, {rosters}", "dim"))]
    for difference in played.differences:
        parts.append(Text(f"  step {difference.step}, {difference.what.replace('_', ' ')}:"))
        for sign, text, style in (("-", difference.then, "red"), ("+", difference.now, "green")):
            parts.append(Text(f"    {sign} {safe(' '.join(text.split())) or '(none)'}", style=style))
    parts += [Text(f"  note: {safe(note)}", style="dim") for note in played.notes]
    return Group(*parts)
