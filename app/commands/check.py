"""`frontdesk check`: everything that is wrong in the agent files, before a customer finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.banner import describe_roster
from app.commands.output import safe
from handoffs.lint import Checked


def problem_table(folder: Path, checked: Checked) -> RenderableType:
    """The result for people."""
    parts: list[RenderableType] = []
    problems = (*checked.errors, *checked.warnings)
    if problems:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("", "where", "field", "what"):
            table.add_column(heading, overflow="fold", no_wrap=heading == "")
        for problem in problems:
            style = "red" if problem.severity == "error" else "yellow"
            where = f"{problem.file}:{problem.line}" if problem.line else problem.file
            table.add_row(
                Text(problem.severity, style=style),
                Text(safe(where)),
                Text(safe(problem.field)),
                Text(safe(problem.message)),
            )
        parts.append(table)
    counted = f"{_count(len(checked.errors), 'error')}, {_count(len(checked.warnings), 'warning')}"
    if checked.roster is None or checked.errors:
        parts.append(Text(f"{folder}: {counted}; these files would be refused", style="bold red"))
    else:
        parts.append(Text(f"{describe_roster(checked.roster, str(folder))}: {counted}", style="bold green"))
    return Group(*parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def problems_json(folder: Path, checked: Checked) -> dict[str, Any]:
    """The result for programs."""
    roster = checked.roster
    return {
        "folder": str(folder),
        "ok": not checked.errors,
        "version": roster.version if roster else None,
        "agents": list(roster.agents) if roster else [],
        "problems": [
            {"severity": p.severity, "file": p.file, "line": p.line, "field": p.field, "message": p.message}
            for p in (*checked.errors, *checked.warnings)
        ],
    }
