"""The router: takes in what customers and people do, and runs the turns. The doors call nothing else.

Every process has one. Which process runs a turn is settled in Redis; a turn whose process died is found by the sweep.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from handoffs.alarms import Alarms
from handoffs.hooks import Hook
from handoffs.people import MAX_TEXT, People, Person, checked_text, message_id
from handoffs.policy import exit_target
from handoffs.roster import HUMAN
from handoffs.state import RouterState, detect_language
from handoffs.team import Team
from handoffs.texts import sentence
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
    Conversation,
    Grant,
    Owner,
    Receipt,
    Rescue,
    What,
)
from sessions.store import Store

__all__ = ["MAX_TEXT", "CustomerMessage", "Person", "Router", "known_language", "message_id"]

log = logging.getLogger("frontdesk.router")

RENEWALS = 3  # per lease: one lost renewal must not cost the turn
SWEEP_S = 3.0  # a turn whose process died is found within its lease and this
CANCEL_S = 1.0  # for cancelled turns to end; the SDK waits for a tool's thread, which nobody can stop
HINTS = 10_000  # conversations whose last owner this process remembers, to load the right history at once
DEADLY = 5  # attempts of a turn that kills its process before the turn itself can give up (after turn.MAX_ATTEMPTS)
STOPPED = "the process that worked on it stopped"  # as the record of a run says it
RESCUES = {"poison": "{attempts} attempts to answer did not end", "human_lost": "the person is no longer at the desk"}


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


class Router(People):
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
        super().__init__(store, team, on_handoff)
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

    def lose(self, conversation_id: str) -> None:
        turn = self._turns.get(conversation_id)
        if turn is not None:
            turn.lose()

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
        if found.rescue is not None and found.previous is not None:
            self.tell(conversation_id, found.epoch, found.previous, found.rescue.handing)
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
        why_moved = RESCUES[why].format(attempts=conversation.attempts)
        handing: dict[str, Any] = {"to": to, "reason": why_moved, "brief": {}, "decided_by": "system"}
        change = {
            "from": conversation.owner.id,
            **handing,
            "text": sentence(key, language, name=name),
            "from_name": sentence("a_person", language) if why == "human_lost" else owner_name,
            "to_name": name,
        }
        return Rescue(to.removeprefix(HUMAN), change, handing)

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                for conversation_id in await self.store.due():
                    if conversation_id not in self._turns:
                        await self._attend(conversation_id)
            except StoreError as error:
                log.warning("the sweep could not read the store: %s", error)
            await asyncio.sleep(self._sweep_s * random.uniform(0.75, 1.25))  # noqa: S311  # jitter, not a secret


def known_language(languages: tuple[str, ...], wish: str) -> str:
    """The desk language that a browser's wish (`de-DE`) comes to; empty when the desk does not have it."""
    short = wish.partition("-")[0]
    return next((code for code in languages if code in (wish, short) or code.partition("-")[0] == short), "")
