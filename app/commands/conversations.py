"""`frontdesk conversations` and `frontdesk show ID`: what the desk knows, in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.commands.output import safe

SHORT_CHARS = 60


def conversation_table(conversations: list[dict[str, Any]]) -> RenderableType:
    """One line per conversation: id, owner, last message, what waits."""
    if not conversations:
        return Text("No conversations yet. Write one at the chat page, or with `frontdesk chat`.")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("conversation", "owner", "status", "waiting", "changed", "last message"):
        table.add_column(heading, no_wrap=heading != "last message", overflow="ellipsis")
    for item in conversations:
        last = " ".join(str(item.get("last_text") or "").split())
        table.add_row(
            Text(safe(str(item["id"]))),
            owner_text(item["owner"]),
            str(item["status"]),
            str(item["waiting"] or ""),
            moment(str(item["updated"])),
            Text(safe(last[:SHORT_CHARS] + ("…" if len(last) > SHORT_CHARS else ""))),
        )
    return table


def conversation_page(view: Mapping[str, Any]) -> RenderableType:
    """Owner, values and the transcript with every change of owner in its place."""
    head = Text.assemble(
        (safe(str(view["id"])), "bold"), "  ", str(view["status"]), "  owner: ", owner_text(view["owner"])
    )
    head.append(f"  epoch {view['epoch']}  seq {view['seq']}", style="dim")
    parts: list[RenderableType] = [head]
    values = view.get("values") or {}
    if values:
        parts.append(Text(safe("values: " + ", ".join(f"{key}={value}" for key, value in values.items())), style="dim"))
    parts += [line for line in map(event_line, view.get("events", [])) if line is not None]
    return Group(*parts)


def event_line(event: Mapping[str, Any]) -> Text | None:
    """One line of the log for people; None for what only programs need."""
    data = event.get("data") or {}
    at = moment(str(event["at"]))
    match event["type"]:
        case "msg.created":
            customer = event["by"] == "customer"
            name = "customer" if customer else str(data.get("name") or event["by"])
            return _line(at, name, str(data.get("text", "")), "green" if customer else "cyan")
        case "owner.changed":
            reason = f" ({data['reason']})" if data.get("reason") else ""
            change = f"{event.get('owner_from')} → {event.get('owner_to')}{reason}, decided by {data.get('decided_by')}"
            return _line(at, "owner", change, "magenta")
        case "notice":
            return _line(at, "notice", str(data.get("text", "")), "yellow")
        case "handoff.refused" | "turn.failed":
            return _line(at, str(event["type"]), str(data.get("reason") or data.get("why") or data), "red")
    return None


def _line(at: str, who: str, text: str, style: str) -> Text:
    return Text.assemble((f"{at}  ", "dim"), (f"{safe(who)}: ", f"bold {style}"), safe(text))


def owner_text(owner: Mapping[str, Any]) -> Text:
    """`Billing (ai)`, coloured by kind."""
    styles = {"ai": "cyan", "human": "green", "queue": "yellow"}
    return Text(safe(f"{owner.get('name') or owner['id']} ({owner['kind']})"), style=styles.get(str(owner["kind"]), ""))


def moment(iso: str) -> str:
    """`2026-11-30 17:04:05` of an ISO time."""
    return iso.replace("T", " ")[:19]
