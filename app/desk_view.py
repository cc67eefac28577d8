"""What the desk and the REST API see of a conversation: the whole log, and the values that are not sensitive."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from app.api_models import (
    AgentView,
    ConversationSummary,
    ConversationView,
    DraftView,
    EventView,
    MessageView,
    OwnerView,
    RosterView,
)
from app.desk import Desk
from app.public_view import iso, person_name
from handoffs.roster import Roster
from handoffs.state import RouterState
from sessions.model import Conversation, Event, Owner, Value

TAIL_EVENTS: Final = 20  # read for a line of the list; among them is nearly always a message
MAX_EVENTS: Final = 1000  # of one conversation in one answer


def owner_view(owner: Owner, roster: Roster, name: str | None = None) -> OwnerView:
    """The owner with the name that people read; a person's is `name`, for it is in the log only."""
    shown = name or (roster.display_name(owner.ref) if owner.id else "")
    return OwnerView(kind=owner.kind.value, id=owner.id, name=shown)


def event_view(event: Event) -> EventView:
    """One entry of the log."""
    return EventView(
        seq=event.seq,
        epoch=event.epoch,
        type=event.type,
        at=iso(event.at),
        by=event.by,
        data=event.data,
        owner_from=event.owner_from or None,
        owner_to=event.owner_to or None,
    )


def transcript(events: Iterable[Event]) -> list[MessageView]:
    """The messages that the customer saw."""
    return [
        MessageView(
            seq=event.seq,
            id=str(event.data.get("id", "")),
            at=iso(event.at),
            by=event.by,
            name=event.data.get("name"),
            text=str(event.data.get("text", "")),
        )
        for event in events
        if event.type == "msg.created"
    ]


async def values_of(desk: Desk, conversation: Conversation) -> dict[str, Value]:
    """The shared values of a conversation, with those of its customer when the desk has any and the customer is known.

    Without a known customer their values lie with the conversation, as a turn finds them.
    """
    values = await desk.store.values(conversation.conversation_id)
    wanted = [key for key, contract in desk.roster.desk.values.items() if contract.lifetime == "customer"]
    customer_id = RouterState.of(conversation.meta).customer
    if wanted and customer_id:
        theirs = (await desk.store.customer_values(customer_id)).values
        values |= {key: theirs[key] for key in wanted if key in theirs}
    return values


def split_values(values: Mapping[str, Value], roster: Roster) -> tuple[dict[str, Any], list[str]]:
    """Values that may be shown, and the names of the others (sensitive, or declared nowhere)."""
    contracts = roster.desk.values
    shown = {key: value.value for key, value in values.items() if key in contracts and not contracts[key].sensitive}
    return shown, sorted(set(values) - set(shown))


def summary(conversation: Conversation, tail: Sequence[Event], roster: Roster) -> ConversationSummary:
    """One line of the list, from the newest events (oldest first)."""
    said = next((event for event in reversed(tail) if event.type == "msg.created"), None)
    language = next((event.data["lang"] for event in reversed(tail) if event.data.get("lang")), None)
    return ConversationSummary(
        id=conversation.conversation_id,
        status=conversation.status,
        owner=owner_view(conversation.owner, roster, person_name(conversation.owner.ref, tail)),
        epoch=conversation.epoch,
        seq=conversation.seq,
        waiting=conversation.waiting,
        approvals=len(conversation.asks),
        born=iso(conversation.born),
        updated=iso(tail[-1].at if tail else conversation.born),
        language=language,
        last_text=str(said.data.get("text", ""))[:200] if said else None,
        last_by=said.by if said else None,
    )


async def summaries(desk: Desk, limit: int) -> list[ConversationSummary]:
    """The conversations that changed last, newest first, and every one that is with people."""

    async def one(conversation: Conversation) -> ConversationSummary:
        after = max(0, conversation.seq - TAIL_EVENTS)
        tail = await desk.store.read(conversation.conversation_id, after, TAIL_EVENTS)
        return summary(conversation, tail, desk.roster)

    return list(await asyncio.gather(*(one(found) for found in await desk.store.recent(limit, people=True))))


async def conversation_view(desk: Desk, conversation_id: str, after: int = 0) -> ConversationView:
    """One conversation; UnknownConversation when there is none. Events with a seq above `after`, at most 1000."""
    conversation = await desk.store.get(conversation_id)
    events, values, draft = await asyncio.gather(
        desk.store.read(conversation_id, max(after, conversation.seq - MAX_EVENTS)),
        values_of(desk, conversation),
        desk.store.draft(conversation_id),
    )
    shown, hidden = split_values(values, desk.roster)
    return ConversationView(
        **summary(conversation, events, desk.roster).model_dump(),
        values=shown,
        hidden_values=hidden,
        draft=DraftView(mid=draft[0], text=draft[1]) if draft[0] else None,
        transcript=transcript(events),
        events=[event_view(event) for event in events],
    )


def roster_view(desk: Desk) -> RosterView:
    """Who works here."""
    roster = desk.roster

    def view(ref: str, target: str) -> AgentView:
        return AgentView(
            id=target.rpartition(":")[2], name=roster.display_name(ref), intended_use=roster.intended_use(target)
        )

    return RosterView(
        desk=roster.text(roster.desk.name),
        start=roster.desk.start,
        version=roster.version,
        agents=[view(f"ai:{agent}", agent) for agent in roster.agents if roster.available(agent)],
        queues=[view(f"queue:{queue}", f"human:{queue}") for queue in roster.desk.queues],
        model=desk.model_description,
    )
