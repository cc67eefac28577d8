"""The router: takes in what customers and people do, and runs the turns. The doors call nothing else.

Every process has one. Which process runs a turn is settled in Redis; a turn whose process died is found by the sweep.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import logging
import random
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from handoffs.alarms import Alarms
from handoffs.errors import MessageRejected, UnknownTarget
from handoffs.hooks import Hook, Hooks
from handoffs.masking import masker
from handoffs.policy import exit_target
from handoffs.roster import HUMAN
from handoffs.seeds import Handing, Past, seed_for, stored
from handoffs.shared_values import AgentValues
from handoffs.state import RouterState, detect_language
from handoffs.team import Team
from handoffs.texts import sentence
from handoffs.transfer import Brief
from handoffs.turn import Turn
from sessions.errors import (
    Conflict,
    ConversationClosed,
    NotClaimable,
    StaleOwner,
    StoreError,
    UnknownConversation,
)
from sessions.live import Live
from sessions.model import (
    Committed,
    Conversation,
    Grant,
    NewEvent,
    Owner,
    OwnerKind,
    Receipt,
    Rescue,
    Taken,
    Token,
    Transferred,
    Value,
    What,
)
from sessions.store import PRESENCE_MS, Store
from sessions.values import ValuesDraft

log = logging.getLogger("frontdesk.router")

MAX_TEXT = 8000  # characters of one message, a customer's or a person's
RENEWALS = 3  # per lease: one lost renewal must not cost the turn
SWEEP_S = 3.0  # a turn whose process died is found within its lease and this
CANCEL_S = 1.0  # for cancelled turns to end; the SDK waits for a tool's thread, which nobody can stop
HINTS = 10_000  # conversations whose last owner this process remembers, to load the right history at once
DEADLY = 5  # attempts of a turn that kills its process before the turn itself can give up (after turn.MAX_ATTEMPTS)
STOPPED = "the process that worked on it stopped"  # as the record of a run says it
RESCUES = {"poison": "{attempts} attempts to answer did not end", "human_lost": "the person is no longer at the desk"}
HANDED_BACK = "A person had this conversation and hands it back to you."
RETRIES = 5  # of a hand back whose log moved on between reading and writing


@dataclass(frozen=True, slots=True)
class CustomerMessage:
    """What a door received. `message_id` is the client's own id: the same id again is the same message.

    `customer` is the id of the visitor that the door has identified; it is kept with a conversation that begins now.
    """

    message_id: str
    text: str
    language: str = ""
    client_id: str = ""
    customer: str = ""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at the desk, as the door has authenticated them."""

    id: str
    name: str


class Router:
    """One process' router over one store. `team` may be replaced while it runs; a running turn keeps its own.

    `on_handoff` are called after each step of a handoff (see handoffs/hooks.py).
    A gateway that leaves the work to other processes has `works` False: it stores and acknowledges, and runs no turn.
    """

    def __init__(
        self,
        store: Store,
        live: Live,
        team: Team,
        *,
        works: bool = True,
        sweep_s: float = SWEEP_S,
        on_handoff: Iterable[Hook] = (),
    ) -> None:
        self.store = store
        self.hooks = Hooks(on_handoff)
        self.team = team
        self.alarms = Alarms()
        self._live = live
        self._works = works
        self._sweep_s = sweep_s
        self._turns: dict[str, Turn] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._hints: OrderedDict[str, str] = OrderedDict()
        self._sweeper: asyncio.Task[None] | None = None
        self._renewer: asyncio.Task[None] | None = None
        self._draining = False
        live.on_ready(self._on_ready)
        live.on_revoked(self._on_revoked)

    @property
    def running(self) -> int:
        """Turns under way in this process."""
        return len(self._turns)

    async def start(self) -> None:
        """Take up work: from here on this process claims turns that others left."""
        if not self._works:
            return
        self._sweeper = asyncio.create_task(self._sweep_for_ever(), name="frontdesk-sweep")

    async def stop(self, grace_s: float = 8.0) -> None:
        """Drain: no new turns; those under way may end within `grace_s`, the rest is given back to other workers."""
        self._draining = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCEL_S)
        await self.hooks.stop(CANCEL_S)
        for turn in tuple(self._turns.values()):  # a tool that blocks its thread keeps its turn from ending by itself
            turn.broke(STOPPED)
            await self._give_back(turn)
        if self._renewer is not None:
            self._renewer.cancel()
            await asyncio.gather(self._renewer, return_exceptions=True)

    # -- customers -------------------------------------------------------------------------------------------------

    async def receive(self, conversation_id: str, message: CustomerMessage) -> Receipt:
        """Store a customer's message and see to its answer. When this returns, the message survives any crash.

        Raises MessageRejected for an empty or too long text, MessageIdReused, ConversationClosed, StoreError.
        """
        text = checked_text(message.text)
        roster = self.team.roster
        language = detect_language(text, roster.desk.languages, known_language(roster.desk.languages, message.language))
        data = {
            "id": message_id(conversation_id, message.message_id),
            "text": text,
            "cid": message.client_id or message.message_id,
            "lang": message.language,
        }
        receipt = await self.store.enqueue(
            conversation_id,
            message.message_id,
            data,
            start=Owner.ai(roster.desk.start),
            meta=RouterState(language=language, roster=roster.version, customer=message.customer).dump(),
            claim=self._works and not self._draining and conversation_id not in self._turns,
            hint=self._hints.get(conversation_id, ""),
        )
        if receipt.grant is not None:
            self._spawn(receipt.grant)
        return receipt

    # -- people ----------------------------------------------------------------------------------------------------

    async def take(
        self, conversation_id: str, *, person: Person, force: bool = False, expected_epoch: int | None = None
    ) -> Taken:
        """The person owns from now on; whatever an agent was saying is stopped and taken back.

        Raises UnknownConversation, ConversationClosed, OwnerBusy (another person), Conflict (`expected_epoch` passed).
        """
        conversation = await self.store.get(conversation_id)
        language = RouterState.of(conversation.meta).language
        change = {
            "reason": "taken over by a person",
            "decided_by": "person",
            "text": sentence("to_person", language, name=person.name),
            "from_name": await self._shown_name(conversation, language),
            "to_name": person.name,
        }
        taken = await self.store.takeover(
            conversation_id, person.id, change=change, expected_epoch=expected_epoch, force=force
        )
        turn = self._turns.get(conversation_id)
        if turn is not None:
            turn.lose()
        return taken

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
        """A person's message to the customer. StaleOwner when somebody else owns now; nothing is sent then."""
        text = checked_text(text)
        data = {"id": message_id(conversation_id, f"say:{message_id_}"), "text": text, "name": person.name}
        for _ in range(RETRIES):
            conversation = await self.store.get(conversation_id)
            holds(conversation, person)
            try:
                return await self.store.commit(
                    conversation_id,
                    token,
                    f"say:{message_id_}",
                    answered=conversation.waiting,
                    events=[NewEvent("msg.created", data)],
                    lease_ms=PRESENCE_MS,
                )
            except Conflict:
                continue  # the same person answered from two windows at once
        raise Conflict(conversation_id, field="inbox", current="changing")

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
        details = {"from": person.id, "to": target, "reason": reason, "decided_by": "person"}
        change = {
            **details,
            "text": roster.announcement(target, state.language),
            "from_name": person.name,
            "to_name": roster.display_name(target, state.language),
        }
        completed = NewEvent("handoff.completed", {**details, **stored(seed, (key for key, _ in readable))})
        done = await self.store.transfer(
            conversation_id,
            token,
            f"back:{token.epoch}",
            to=Owner.ai(target),
            change=change,
            after=[completed],
            seed=[seed],
            meta=None if grown == state else grown.dump(),
            expected_seq=seq,
        )
        if not done.duplicate:
            self.hooks.written(conversation_id, done.token.epoch, [completed])
        return done

    async def _all_values(self, conversation_id: str, customer_id: str) -> Mapping[str, Value]:
        """The values of the conversation and, where it is known whose it is, of the customer."""
        of_customer = await self.store.customer_values(customer_id) if customer_id else None
        own = await self.store.values(conversation_id)
        return {**of_customer.values, **own} if of_customer is not None else own

    # -- turns -----------------------------------------------------------------------------------------------------

    def _spawn(self, grant: Grant) -> None:
        told = functools.partial(self.hooks.written, grant.conversation_id) if self.hooks else None
        turn = Turn(self.store, self.team, grant, follow=self._live.follow, alarms=self.alarms, told=told)
        self._turns[grant.conversation_id] = turn
        if self._renewer is None:
            self._renewer = asyncio.create_task(self._renew_for_ever(), name="frontdesk-renew")
        task = asyncio.create_task(self._run(turn), name=f"turn-{grant.conversation_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, turn: Turn) -> None:
        try:
            await turn.run()
        except StaleOwner as stale:
            log.info("%s", stale)
        except (
            Conflict
        ) as conflict:  # somebody at the desk changed a value meanwhile: run the turn again on what is now
            log.info("%s", conflict)
            turn.broke(str(conflict))
            await self._give_back(turn)
        except StoreError as error:  # the lease runs out and the sweep of some process takes it up again
            log.warning("%s: the turn could not be stored: %s", turn.conversation_id, error)
        except asyncio.CancelledError:
            turn.broke(STOPPED)
            await self._give_back(turn)
            raise
        except Exception as error:
            log.exception("%s: the turn failed", turn.conversation_id)
            turn.broke(f"{type(error).__name__}: {error}")
            await self._give_back(turn)
        finally:
            if self._turns.get(turn.conversation_id) is turn:
                del self._turns[turn.conversation_id]
            self._remember(turn.conversation_id, turn.owner_id)

    async def _renew_for_ever(self) -> None:
        """Keep the leases of the turns that run here; a turn whose token is stale is stopped by its `verify`."""
        while True:
            await asyncio.sleep(self.store.lease_ms / 1000 / RENEWALS)
            await asyncio.gather(*(turn.verify() for turn in tuple(self._turns.values())), return_exceptions=True)

    async def _give_back(self, turn: Turn) -> None:
        with contextlib.suppress(StoreError):
            await self.store.release(turn.conversation_id, turn.token, record=turn.broken())

    def _remember(self, conversation_id: str, owner_id: str) -> None:
        self._hints[conversation_id] = owner_id
        self._hints.move_to_end(conversation_id)
        while len(self._hints) > HINTS:
            self._hints.popitem(last=False)

    # -- work that others left -------------------------------------------------------------------------------------

    def _on_ready(self, message: str) -> None:
        conversation_id, _, owner_id = message.partition(" ")
        if not self._draining and conversation_id not in self._turns and self._sweeper is not None:
            self._remember(conversation_id, owner_id)
            task = asyncio.create_task(self._claim(conversation_id), name=f"claim-{conversation_id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _on_revoked(self, conversation_id: str) -> None:
        turn = self._turns.get(conversation_id)
        if turn is not None:  # ask Redis: the word may be about an earlier turn of ours
            task = asyncio.create_task(turn.verify(), name=f"verify-{conversation_id}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _claim(self, conversation_id: str) -> None:
        try:
            grant = await self.store.claim(conversation_id, hint=self._hints.get(conversation_id, "-"))
        except (NotClaimable, UnknownConversation, ConversationClosed):
            return
        except StoreError as error:
            log.warning("%s: could not be claimed: %s", conversation_id, error)
            return
        if self._draining or conversation_id in self._turns:
            with contextlib.suppress(StoreError):
                await self.store.release(conversation_id, grant.token)
            return
        self._spawn(grant)

    async def _attend(self, conversation_id: str) -> None:
        """Settle what ran out (presence, offers, approvals), and take up a turn that nobody works on."""
        found = await self.store.attend(conversation_id, rescue=self._rescue, max_attempts=DEADLY)
        if found.what is What.READY:
            await self._claim(conversation_id)

    def _rescue(self, conversation: Conversation, why: str) -> Rescue | None:
        """Where a conversation goes whose owner will not answer: the human queue of its agent's route."""
        roster = self.team.roster
        spec = self.team.spec(conversation.owner.id) if why == "poison" else roster.start
        to = exit_target(roster, spec) if spec else next((HUMAN + queue for queue in roster.desk.queues), "")
        if not to.startswith(HUMAN):
            return None
        language = RouterState.of(conversation.meta).language
        name = roster.display_name(to, language)
        key = "failed_to_queue" if why == "poison" else "person_gone"
        owner_name = roster.display_name(conversation.owner.ref, language)
        change = {
            "from": conversation.owner.id,
            "to": to,
            "reason": RESCUES[why].format(attempts=conversation.attempts),
            "decided_by": "system",
            "text": sentence(key, language, name=name),
            "from_name": sentence("a_person", language) if why == "human_lost" else owner_name,
            "to_name": name,
        }
        return Rescue(to.removeprefix(HUMAN), change)

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                for conversation_id in await self.store.due():
                    if conversation_id not in self._turns:
                        await self._attend(conversation_id)
            except StoreError as error:
                log.warning("the sweep could not read the store: %s", error)
            await asyncio.sleep(self._sweep_s * random.uniform(0.75, 1.25))  # noqa: S311  # jitter, not a secret


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


def known_language(languages: tuple[str, ...], wish: str) -> str:
    """The desk language that a browser's wish (`de-DE`) comes to; empty when the desk does not have it."""
    short = wish.partition("-")[0]
    return next((code for code in languages if code in (wish, short) or code.partition("-")[0] == short), "")
