"""`frontdesk timeline ID`: one paragraph per owner, in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from app.commands.conversations import moment, owner_text
from app.commands.output import safe


def timeline_page(view: Mapping[str, Any]) -> RenderableType:
    """Every owner from the first to the present one."""
    head = Text.assemble((safe(str(view["id"])), "bold"), "  ", str(view["status"]))
    parts: list[RenderableType] = [head]
    if not view["complete"]:
        parts.append(Text("the beginning is not in the log any more", style="yellow"))
    for tenure in view["tenures"]:
        parts += _paragraph(tenure)
    return Group(*parts)


def _paragraph(tenure: Mapping[str, Any]) -> Iterator[Text]:
    until = moment(str(tenure["until"])) if tenure["until"] else "now"
    yield Text.assemble(
        (f"{moment(str(tenure['since']))} to {until}  ", "dim"),
        owner_text(tenure["owner"]),
        (f"  {_duration(tenure['seconds'])}", "dim"),
    )
    why = tenure["reason"] or "no reason given"
    yield _line(f"why: {why}, decided by {tenure['decided_by']} ({tenure['by']})")
    yield _line(_counts(tenure))
    if tenure["brief"]:
        yield _line("brief: " + ", ".join(f"{key}={_plain(part)}" for key, part in tenure["brief"].items()))
    if tenure["values"]:
        yield _line("saw the values: " + ", ".join(tenure["values"]))
    for text in tenure["seed"]:
        yield _line("seed: " + " ".join(text.split()))
    if tenure["spent"]:
        spent = tenure["spent"]
        tokens = f"{spent['input_tokens']} tokens in, {spent['output_tokens']} out"
        yield _line(f"spent: {spent['runs']} runs, {spent['model_calls']} model calls, {tokens}, {spent['seconds']} s")


def _counts(tenure: Mapping[str, Any]) -> str:
    found = [f"{tenure['received']} received", f"{tenure['answered']} answered", f"{tenure['wrote']} written"]
    return "messages: " + ", ".join(found) + (f"; {tenure['refused']} handoffs refused" if tenure["refused"] else "")


def _plain(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _duration(seconds: float) -> str:
    """`4.2 s` below a minute, `1:02:03` above."""
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))


def _line(text: str) -> Text:
    return Text("  " + safe(text), style="dim")
