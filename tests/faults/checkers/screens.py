"""What customers were shown, checked: every event once and in order, and no piece of a message after its end."""

from __future__ import annotations

from sessions.model import Ephemeral, Event
from tests.faults.checkers.evidence import Evidence, Record, Shown, Violation


def check(evidence: Evidence) -> list[Violation]:
    """All broken promises, screen by screen."""
    violations: list[Violation] = []
    for conversation_id, shown in evidence.screens.items():
        record = evidence.records.get(conversation_id)
        violations += _events(conversation_id, shown, record)
        violations += _pieces(conversation_id, shown, record.start if record else "")
    return violations


def _events(conversation_id: str, shown: Shown, record: Record | None) -> list[Violation]:
    """A screen shows the log: gapless, in order, each event once, and at the end all of it."""
    seen = [item for item in shown if isinstance(item, Event)]
    there = list(record.events) if record else []
    if seen == there:
        return []
    same = sum(1 for one, other in zip(seen, there, strict=False) if one == other)
    if same == len(seen):
        return [Violation("screen misses events", conversation_id, f"{len(there) - same} of {len(there)}", same + 1)]
    text = f"shows {seen[same].id} {seen[same].type} where the log has something else"
    return [Violation("screen shows another log", conversation_id, text, seen[same].seq)]


def _pieces(conversation_id: str, shown: Shown, owner: str) -> list[Violation]:
    """Pieces come from the owner, none after the end of its message, which begins with what was shown of it."""
    out: list[Violation] = []
    drafts: dict[str, str] = {}
    ended: set[str] = set()
    for item in shown:
        if isinstance(item, Ephemeral):
            if item.type != "msg.delta":
                continue
            message_id, offset = str(item.data["mid"]), int(item.data["off"])
            by = f"{item.data['by']['kind']}:{item.data['by']['id']}"
            if message_id in ended or by != owner:
                out.append(Violation("stray piece on a screen", conversation_id, f"{message_id} at {offset} by {by}"))
            if offset <= len(drafts.get(message_id, "")):
                drafts[message_id] = drafts.get(message_id, "")[:offset] + str(item.data["d"])
        elif item.type == "owner.changed":
            ended |= drafts.keys()
            owner = item.owner_to
        elif item.type in ("msg.created", "msg.retracted"):
            message_id = str(item.data["id"])
            ended.add(message_id)
            text = str(item.data.get("text", ""))
            if item.type == "msg.created" and not text.startswith(drafts.get(message_id, "")):
                out.append(Violation("message differs from its draft", conversation_id, message_id, item.seq))
    return out
