"""What a customer may see: events of the log become `ev` frames without briefs, reasons, tools or people's ids.

Pure functions. The lists are allow-lists: an event type or a field that is not named here is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from app.protocol import Draft, Eph, Ev, Party, Snapshot
from sessions.model import Conversation, Ephemeral, Event

Names = Callable[[str], str]  # an owner ref such as `ai:billing` -> the name that the customer reads
Reason = Literal["epoch", "trimmed", "ahead", "too_far"]

VISIBLE: Final = frozenset({"msg.created", "msg.retracted", "owner.changed", "notice", "status.changed"})
KEPT_FOR_SNAPSHOT: Final = frozenset({"msg.created", "owner.changed", "notice", "status.changed"})
SNAPSHOT_MESSAGES: Final = 50
_KINDS: Final = {"ai", "human", "queue", "nobody"}


def iso(at_ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def party(ref: str, name: str | None, names: Names) -> Party:
    """Who `ref` is (`customer`, `system`, `ai:billing`, `human:ann`), as a customer may know them."""
    if ref == "customer":
        return Party(kind="visitor")
    kind, _, id_ = ref.partition(":")
    if kind not in _KINDS:
        return Party(kind="system")
    if kind == "nobody":
        return Party(kind="nobody")
    if kind == "human":  # a person's login is nobody's business outside
        return Party(kind="human", name=name)
    return Party(kind=cast(Any, kind), id=id_, name=name or names(ref))


def owner_party(conversation: Conversation, newest: Sequence[Event], names: Names) -> Party:
    """The owner now. A person's name is only in the event of their taking over, which `newest` may hold."""
    ref = conversation.owner.ref
    return party(ref, person_name(ref, newest), names)


def person_name(ref: str, newest: Sequence[Event]) -> str | None:
    """The display name of the person `ref` (`human:ann`) as of the newest event that gave them the conversation."""
    if not ref.startswith("human:"):
        return None
    taken = (event for event in reversed(newest) if event.type == "owner.changed" and event.owner_to == ref)
    return next((_text(event.data, "to_name") for event in taken), None)


def public_event(event: Event, names: Names, *, lineage: str | None = None) -> Ev:
    """The `ev` frame of one event. `lineage` goes out with the first event of a log, which made it."""
    epoch = lineage if event.seq == 1 else None
    if event.type not in VISIBLE:
        return Ev(seq=event.seq, e="hidden", epoch=epoch)
    data = event.data
    return Ev(
        seq=event.seq,
        e=event.type,
        id=_text(data, "id"),
        cid=_text(data, "cid") if event.by == "customer" else None,
        at=iso(event.at),
        by=party(event.by, _text(data, "name"), names),
        d=_details(event, names),
        epoch=epoch,
    )


def _details(event: Event, names: Names) -> dict[str, Any] | None:
    data = event.data
    match event.type:
        case "msg.created" | "notice":
            return {"text": _text(data, "text") or ""}
        case "status.changed":
            return {"status": _text(data, "status") or "open"}
        case "owner.changed":
            return _owner_change(event, names)
    return None


def _owner_change(event: Event, names: Names) -> dict[str, Any]:
    before = party(event.owner_from, _text(event.data, "from_name"), names)
    after = party(event.owner_to, _text(event.data, "to_name"), names)
    found = {
        "from": before.model_dump(exclude_none=True),
        "to": after.model_dump(exclude_none=True),
        "text": _text(event.data, "text"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) and value else None


def public_ephemeral(item: Ephemeral, names: Names) -> Eph | None:
    """The `eph` frame, or None for what a customer does not see."""
    data = item.data
    by = _speaker(data.get("by"), names)
    match item.type:
        case "msg.delta":
            return Eph(e="msg.delta", mid=str(data["mid"]), off=int(data["off"]), d=str(data["d"]), by=by)
        case "typing":
            return None if by is None or by.kind == "visitor" else Eph(e="typing", by=by, on=bool(data.get("on")))
        case "run.status":  # which tool runs is internal; that somebody works is not
            return Eph(e="run.status", state="working" if data.get("state") == "tool" else "thinking", by=by)
    return None


def _speaker(raw: object, names: Names) -> Party | None:
    """The `by` of an ephemeral: `{"kind","id","name"}` or a ref."""
    if isinstance(raw, str):
        return party(raw, None, names)
    if not isinstance(raw, Mapping):
        return None
    if raw.get("kind") in ("customer", "visitor"):
        return Party(kind="visitor")
    return party(f"{raw.get('kind')}:{raw.get('id', '')}", _text(raw, "name"), names)


def snapshot(
    conversation: Conversation,
    events: Sequence[Event],
    drafts: list[Draft],
    reason: Reason,
    lineage: str,
    names: Names,
) -> Snapshot:
    """The state of a conversation from its newest `events` (oldest first), at most 50 of the visible ones."""
    visible = [event for event in events if event.type in KEPT_FOR_SNAPSHOT and event.seq <= conversation.seq]
    newest = visible[-SNAPSHOT_MESSAGES:]
    before = newest[0].seq if newest and newest[0].seq > 1 else None
    return Snapshot(
        reason=reason,
        epoch=lineage,
        seq=conversation.seq,
        messages=[public_event(event, names) for event in newest],
        owner=owner_party(conversation, events, names),
        status=conversation.status,
        drafts=drafts,
        before=before,
    )
