"""`frontdesk conversations` and `frontdesk show ID`: what the desk knows, in the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from app.commands.output import safe

SHORT_CHARS = 76  # with its indent, a line of a usual terminal


def conversation_list(conversations: list[dict[str, Any]]) -> RenderableType:
    """Two lines per conversation: id, owner, when it changed and what waits; below, the last message."""
    if not conversations:
        return Text("No conversations yet. Write one at the chat page, or with `frontdesk chat`.")
    return Group(*(line for item in conversations for line in _two_lines(item)))


def _two_lines(item: Mapping[str, Any]) -> tuple[Text, Text]:
    state = [] if item["status"] == "open" else [str(item["status"])]
    state += [f"{item['waiting']} waiting"] if item["waiting"] else []
    head = Text.assemble((safe(str(item["id"])), "bold"), "  ", owner_text(item["owner"]), "  ")
    head.append("  ".join([moment(str(item["updated"])), *state]), style="dim")
    return head, Text("  " + _short(str(item.get("last_text") or "")), style="dim")


def _short(text: str) -> str:
    line = safe(" ".join(text.split()))
    return line[:SHORT_CHARS] + ("…" if len(line) > SHORT_CHARS else "")


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
        case "approval.asked":
            call = data.get("call") or {}
            arguments = json.dumps(call.get("arguments"), ensure_ascii=False)
            return _line(at, "approval", f"{call.get('agent')} wants {call.get('tool')} {arguments}", "yellow")
        case "approval.decided":
            by = "nobody decided in time" if data.get("late") else f"by {event['by']}"
            note = f": {data['note']}" if data.get("note") else ""
            return _line(at, "approval", f"{data.get('verdict')} ({by}){note}", "yellow")
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
