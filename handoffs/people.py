"""What people at the desk do: take a conversation, write, hand it to an agent, another person or a queue, offer it.

Each change of owner has the records of a handoff (requested, accepted, completed), and the hooks hear of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from handoffs.errors import MessageRejected, UnknownTarget
from handoffs.hooks import Hook, Hooks
from handoffs.masking import masker
from handoffs.policy import target_of
from handoffs.seeds import Handing, Past, seed_for, stored
from handoffs.shared_values import AgentValues
from handoffs.state import RouterState
from handoffs.team import Team
from handoffs.texts import sentence
from handoffs.transfer import Brief
from sessions.errors import Conflict, MessageIdReused, NotOffered, StaleOwner
from sessions.model import Committed, Conversation, NewEvent, Offer, Owner, OwnerKind, Taken, Token, Transferred, Value
from sessions.store import PRESENCE_MS, Store
from sessions.values import ValuesDraft

MAX_TEXT = 8000  # characters of one message, a customer's or a person's
TAKEN = "taken over by a person"
ACCEPTED = "accepted an offer"
HANDED_BACK = "A person had this conversation and hands it back to you."
RETRIES = 5  # of a hand back whose log moved on between reading and writing


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at the desk, as the door has authenticated them."""

    id: str
    name: str


class People:
    """The people's part of a router. `team` may be replaced while it runs."""

    def __init__(self, store: Store, team: Team, on_handoff: Iterable[Hook] = ()) -> None:
        self.store = store
        self.team = team
        self.hooks = Hooks(on_handoff)

    def lose(self, conversation_id: str) -> None:
        """Somebody else owns now: a turn of this process stops, before it says another word."""
        raise NotImplementedError

    async def take(
        self, conversation_id: str, *, person: Person, force: bool = False, expected_epoch: int | None = None
    ) -> Taken:
        """The person owns from now on; whatever an agent was saying is stopped and taken back.

        Raises UnknownConversation, ConversationClosed, OwnerBusy (another person), Conflict (`expected_epoch` passed).
        """
        conversation = await self.store.get(conversation_id)
        language = RouterState.of(conversation.meta).language
        handing = {"to": person.id, "reason": TAKEN, "brief": {}, "decided_by": "person"}
        change = {
            **handing,
            "text": sentence("to_person", language, name=person.name),
            "from_name": await self._shown_name(conversation, language),
            "to_name": person.name,
        }
        taken = await self.store.takeover(
            conversation_id, person.id, change=change, handing=handing, expected_epoch=expected_epoch, force=force
        )
        self.lose(conversation_id)
        if taken.previous != Owner.human(person.id):
            self.tell(conversation_id, taken.token.epoch, taken.previous, handing)
        return taken

    def tell(self, conversation_id: str, epoch: int, previous: Owner, handing: Mapping[str, Any]) -> None:
        """The hooks hear of a change of owner whose records the store has written."""
        self.hooks.written(conversation_id, epoch, steps({"from": target_of(previous), **handing}))

    async def _shown_name(self, conversation: Conversation, language: str) -> str:
        """How the customer knows the owner: a person by the name that was announced, never by the login."""
        if conversation.owner.kind is not OwnerKind.HUMAN:
            return self.team.roster.display_name(conversation.owner.ref, language)
        for event in reversed(await self.store.read(conversation.conversation_id)):
            if event.owner_to == conversation.owner.ref and event.data.get("to_name"):
                return str(event.data["to_name"])
        return sentence("a_person", language)

    async def stay(self, conversation_id: str, token: Token) -> int:
        """The person is still there; until when (ms of Redis' clock) that is believed. StaleOwner: somebody else owns.

        A person who is not heard of for three minutes has gone: the conversation goes back to a queue.
        """
        return await self.store.renew(conversation_id, token, lease_ms=PRESENCE_MS)

    async def say(self, conversation_id: str, token: Token, person: Person, text: str, message_id_: str) -> Committed:
        """A person's message to the customer. StaleOwner when somebody else owns now; nothing is sent then.

        MessageIdReused when the id was used for another text.
        """
        text = checked_text(text)
        data = {"id": message_id(conversation_id, f"say:{message_id_}"), "text": text, "name": person.name}
        for _ in range(RETRIES):
            conversation = await self.store.get(conversation_id)
            holds(conversation, person)
            try:
                done = await self.store.commit(
                    conversation_id,
                    token,
                    f"say:{message_id_}",
                    answered=conversation.waiting,
                    events=[NewEvent("msg.created", data)],
                    lease_ms=PRESENCE_MS,
                )
            except Conflict:
                continue  # the same person answered from two windows at once
            if done.duplicate:
                await self._same_text(conversation_id, done.seq, text, message_id_)
            return done
        raise Conflict(conversation_id, field="inbox", current="changing")

    async def _same_text(self, conversation_id: str, seq: int, text: str, message_id_: str) -> None:
        """MessageIdReused unless the message that is already there says the same."""
        for event in await self.store.read(conversation_id, seq - 1, limit=1):
            if event.seq == seq and event.data.get("text") != text:
                raise MessageIdReused(conversation_id, message_id_)

    async def hand_back(
        self, conversation_id: str, token: Token, person: Person, to: str | None = None, note_: str = ""
    ) -> Transferred:
        """The person gives the conversation to an agent (the start agent without `to`), with a note for it.

        The agent answers at once only if the customer's message is the last word. Raises UnknownTarget, StaleOwner.
        """
        roster = self.team.roster
        target = to or roster.desk.start
        if target not in roster or not roster.available(target):
            raise UnknownTarget(target, tuple(agent for agent in roster.agents if roster.available(agent)))
        for _ in range(RETRIES):
            conversation = await self.store.get(conversation_id)
            holds(conversation, person)
            try:
                return await self._hand_back(conversation_id, token, person, target, note_, conversation.seq)
            except Conflict:
                continue  # the customer wrote meanwhile: the seed must not miss or repeat it
        raise Conflict(conversation_id, field="log", current="changing")

    async def _hand_back(
        self, conversation_id: str, token: Token, person: Person, target: str, note_: str, seq: int
    ) -> Transferred:
        roster = self.team.roster
        conversation = await self.store.get(conversation_id)
        state = RouterState.of(conversation.meta)
        events = await self.store.read(conversation_id, conversation.seen.get(target, 0))
        waiting = [event.seq for event in events if event.by == "customer"][-conversation.waiting :]
        values = ValuesDraft(await self._all_values(conversation_id, state.customer))
        past = Past(
            store=self.store,
            team=self.team,
            conversation_id=conversation_id,
            newest_first=lambda: reversed(events),
            back_to=0,
            seen=conversation.seen,
            pending=waiting if conversation.waiting else (),
            value=values.get,
        )
        reason = masker(roster, values.get)(note_)
        handing = Handing(f"{person.name} (a person)", reason, Brief(), intro=HANDED_BACK)
        seed, grown = await seed_for(past, roster[target], handing, state)
        readable = AgentValues(values, roster, roster[target]).known()
        details = {"from": person.id, "to": target, "reason": reason, "brief": {}, "decided_by": "person"}
        change = {
            **details,
            "text": roster.announcement(target, state.language),
            "from_name": person.name,
            "to_name": roster.display_name(target, state.language),
        }
        requested, accepted, completed = steps(details, stored(seed, (key for key, _ in readable)))
        done = await self.store.transfer(
            conversation_id,
            token,
            f"back:{token.epoch}",
            to=Owner.ai(target),
            change=change,
            before=[requested, accepted],
            after=[completed],
            seed=[seed],
            meta=None if grown == state else grown.dump(),
            expected_seq=seq,
        )
        if not done.duplicate:
            self.hooks.written(conversation_id, done.token.epoch, [requested, accepted, completed])
        return done

    # -- to other people -------------------------------------------------------------------------------------------

    async def pass_on(
        self, conversation_id: str, token: Token, person: Person, to: Owner, note: str = "", name: str = ""
    ) -> Transferred:
        """The person gives the conversation to a queue, another person (`name` is what the customer reads) or an agent.

        Another person owns at once and has three minutes to take it; then a queue gets it.
        Raises UnknownTarget, MessageRejected (to oneself, or to a person without a name), StaleOwner.
        """
        if to.kind is OwnerKind.AI:
            return await self.hand_back(conversation_id, token, person, to.id, note)
        self._check_people(person, to, name)
        conversation = await self.store.get(conversation_id)
        holds(conversation, person)
        language = RouterState.of(conversation.meta).language
        shown = name or self.team.roster.display_name(target_of(to), language)
        details = {"from": person.id, **await self._handing(conversation, to, note)}
        names = {"text": sentence("to_queue", language, name=shown), "from_name": person.name, "to_name": shown}
        requested, accepted, completed = steps(details)
        done = await self.store.transfer(
            conversation_id,
            token,
            f"pass:{token.epoch}",
            to=to,
            change={**details, **names},
            before=[requested, accepted],
            after=[completed],
        )
        if not done.duplicate:
            self.hooks.written(conversation_id, done.token.epoch, [requested, accepted, completed])
        return done

    async def offer(
        self,
        conversation_id: str,
        token: Token,
        person: Person,
        offer_id: str,
        to: Owner,
        valid_ms: int,
        note: str = "",
    ) -> Offer:
        """Ask a queue or another person to take the conversation; until somebody accepts, `person` owns it.

        The same `offer_id` again gets the first deadline. Raises UnknownTarget, MessageRejected, OfferPending,
        OfferGone, StaleOwner, ValueError (`valid_ms`).
        """
        self._check_people(person, to, to.id)
        conversation = await self.store.get(conversation_id)
        holds(conversation, person)
        brief = {"reason": (await self._handing(conversation, to, note))["reason"], "from_name": person.name}
        deadline = await self.store.offer(conversation_id, token, offer_id, to=to, valid_ms=valid_ms, brief=brief)
        return Offer(offer_id, Owner.human(person.id), to, deadline, brief)

    async def accept(self, conversation_id: str, offer_id: str, person: Person) -> Taken:
        """Take what was offered, in time. Raises OfferGone, NotOffered (to another person), ConversationClosed."""
        conversation = await self.store.get(conversation_id)
        offer = await self.store.pending_offer(conversation_id)
        reason = str(offer.brief.get("reason", "")) if offer else ""
        language = RouterState.of(conversation.meta).language
        handing = {"to": person.id, "reason": reason or ACCEPTED, "brief": {}, "decided_by": "person"}
        change = {
            **handing,
            "text": sentence("to_person", language, name=person.name),
            "from_name": await self._shown_name(conversation, language),
            "to_name": person.name,
        }
        taken = await self.store.accept(conversation_id, offer_id, person.id, change=change, handing=handing)
        self.lose(conversation_id)
        if taken.previous != Owner.human(person.id):
            self.tell(conversation_id, taken.token.epoch, taken.previous, handing)
        return taken

    async def decline(self, conversation_id: str, offer_id: str, person: Person, reason: str = "") -> int:
        """Say no; the owner stays. The event's seq. Only the person who was asked may, of a queue anybody.

        Raises OfferGone, NotOffered, UnknownConversation.
        """
        await self.store.get(conversation_id)
        offer = await self.store.pending_offer(conversation_id)
        asked = offer is not None and offer.offer_id == offer_id and offer.to.kind is OwnerKind.HUMAN
        if offer is not None and asked and offer.to.id != person.id:
            raise NotOffered(conversation_id, offer_id, to=offer.to.ref)
        return await self.store.decline(conversation_id, offer_id, f"human:{person.id}", reason=reason)

    async def cancel(self, conversation_id: str, token: Token, person: Person, offer_id: str) -> int:
        """The owner takes the offer back; the event's seq. Raises StaleOwner, OfferGone."""
        holds(await self.store.get(conversation_id), person)
        return await self.store.cancel(conversation_id, token, offer_id)

    def _check_people(self, person: Person, to: Owner, name: str) -> None:
        """UnknownTarget or MessageRejected unless `to` is a queue of this desk, or another person with a name."""
        queues = self.team.roster.desk.queues
        if to.kind is OwnerKind.QUEUE and to.id not in queues:
            raise UnknownTarget(to.id, tuple(queues), what="queue")
        if to == Owner.human(person.id):
            raise MessageRejected("to", f"{person.id} has the conversation already")
        if to.kind is OwnerKind.HUMAN and not name.strip():
            raise MessageRejected("to.name", "it is empty; the name of the person is what the customer reads")

    async def _handing(self, conversation: Conversation, to: Owner, note: str) -> dict[str, Any]:
        """The records' data but `from`; sensitive values are masked in the note."""
        customer = RouterState.of(conversation.meta).customer
        values = ValuesDraft(await self._all_values(conversation.conversation_id, customer))
        reason = masker(self.team.roster, values.get)(note)
        return {"to": target_of(to), "reason": reason, "brief": {}, "decided_by": "person"}

    async def _all_values(self, conversation_id: str, customer_id: str) -> Mapping[str, Value]:
        """The values of the conversation and, where it is known whose it is, of the customer."""
        of_customer = await self.store.customer_values(customer_id) if customer_id else None
        own = await self.store.values(conversation_id)
        return {**of_customer.values, **own} if of_customer is not None else own


def steps(details: Mapping[str, Any], shown: Mapping[str, Any] | None = None) -> list[NewEvent]:
    """The records of a handoff that happened; `shown` is what the new owner was shown, for the last one."""
    return [
        NewEvent("handoff.requested", details),
        NewEvent("handoff.accepted", details),
        NewEvent("handoff.completed", {**details, **(shown or {})}),
    ]


def holds(conversation: Conversation, person: Person) -> None:
    """StaleOwner unless `person` owns: a token alone does not let one person write in another's name."""
    owner = conversation.owner
    if owner != Owner.human(person.id):
        raise StaleOwner(conversation.conversation_id, owner=owner.ref, epoch=conversation.epoch)


def checked_text(text: str) -> str:
    """The text without surrounding space; MessageRejected when it is empty or too long."""
    text = text.strip()
    if not text:
        raise MessageRejected("text", "it is empty")
    if len(text) > MAX_TEXT:
        raise MessageRejected("text", f"it has {len(text)} characters; at most {MAX_TEXT} are allowed")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MessageRejected("text", "it is not Unicode: there is half of a surrogate pair in it") from None
    return text


def message_id(conversation_id: str, client_id: str) -> str:
    """The message id for a client's own id: the same for a repeated message, whoever handles it."""
    return "m_" + hashlib.sha256(f"{conversation_id}\x00{client_id}".encode("utf-8", "replace")).hexdigest()[:20]
