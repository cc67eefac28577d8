"""One turn: from a customer's waiting messages to the next quiet moment, through as many owners as it takes.

Run the owner's agent, then commit its work, or commit and transfer in one call and go on as the new owner.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from dataclasses import replace
from typing import Any

from agents import Agent

from handoffs.alarms import Alarms
from handoffs.announced import announced
from handoffs.approvals import (
    Answers,
    Interruption,
    Released,
    answers,
    holding_line,
    questions,
    resumed,
    told,
)
from handoffs.burst import Follow, Restart, batch, listening, settled
from handoffs.context import Asks, TurnContext
from handoffs.errors import ModelFailed
from handoffs.guardrails import Tripped, tripped
from handoffs.history import Line, customer_item
from handoffs.ledger import Ledger
from handoffs.masking import masked_request, masker
from handoffs.observing import Observing
from handoffs.policy import exit_target, next_in_plan, owner_of
from handoffs.record import MARK
from handoffs.recorder import Recorder
from handoffs.relay import Relay, new_message_id
from handoffs.remembered import without_refused
from handoffs.roster import HUMAN, AgentSpec, Burst, Step
from handoffs.run import AgentRun, Said
from handoffs.seeds import NOT_YET, Handing, Past, seed_for, stored
from handoffs.shared_values import AgentValues
from handoffs.state import RouterState, detect_language
from handoffs.team import Team
from handoffs.texts import sentence
from handoffs.tools import TRANSFER
from handoffs.transfer import TransferRequest
from handoffs.turn_values import TurnValues
from handoffs.waiting import Rest, labels, named, with_results
from sessions.errors import StaleOwner, StoreError
from sessions.isolated import IsolatedSession, Told, pair_safe
from sessions.model import Grant, Item, NewEvent, OwnerKind, Recorded
from sessions.store import Store

log = logging.getLogger("frontdesk.turn")

MAX_ATTEMPTS = 3  # a turn that died this often goes to people instead of round again


REMINDER: Item = {
    "role": "system",
    "content": "You told the customer that you transfer the conversation, but transfer_to_agent was not called, so "
    "nothing happened. Call it now if somebody else should take over. Otherwise say only: ok",
}


class Turn:
    """A claimed turn. `run` ends when the customer is next, when people own, or with StaleOwner.

    Somebody must call `verify` a few times in each lease while it runs: the router does. `follow` gives a
    conversation's live events, for routes that begin again when the customer writes on. `told` hears what is written.
    """

    def __init__(
        self,
        store: Store,
        team: Team,
        grant: Grant,
        *,
        follow: Follow | None = None,
        alarms: Alarms | None = None,
        told: Told | None = None,
    ) -> None:
        self.conversation_id = grant.conversation_id
        self.token = grant.token
        self._store = store
        self._team = team
        self._roster = team.roster
        self.owner_id = grant.conversation.owner.id
        self._history = list(grant.history)
        self._pending = grant.pending
        self._batch = grant.pending  # those of them that the next answer is for
        self._held = 0  # how many messages a plan answers, when its first agent takes them one by one
        self._follow = follow
        self._told = told
        self._alarms = alarms or Alarms()
        self._noticed: list[NewEvent] = []  # for the next commit
        self._state = RouterState.of(grant.conversation.meta)
        self._read_log = grant.log
        self._log_from = grant.log_from
        self._lines: list[Line] = []  # said in this turn, on top of the log that the claim brought
        self._seen = dict(grant.conversation.seen)
        self._attempts = grant.conversation.attempts
        self._failures = 0
        self._asks = Asks()
        self._step = 0
        self._writing = asyncio.Lock()  # a renewal must not meet a transfer that is changing the token
        self._lost = False
        self._waiting: asyncio.Event | None = None  # set by `lose`, while the turn waits for more messages
        self._run: AgentRun | None = None
        self._turn_id = f"{grant.pending[0].seq if grant.pending else 0}"
        self._record = Recorder(
            run=str(grant.token.epoch),
            turn=self._turn_id,
            attempt=grant.conversation.attempts,
            roster=team.roster.version,
            worker=store.worker,
            meta=grant.conversation.meta,
            values=grant.values,
            kept=store.runs_keep > 0,
        )
        self._observing = Observing(
            store,
            self.conversation_id,
            f"{self.conversation_id}{MARK}{grant.token.epoch}",
            on=grant.conversation.watched_until > grant.token.epoch,  # an epoch is the time of its claim, or later
        )
        self._values = TurnValues(store, grant, self._turn_id, self._roster.desk.values, self._state)
        self._tenure = grant.conversation.tenure
        self._undecided = grant.conversation.asks
        self._asked: tuple[str, ...] = ()  # approvals of this turn, whatever became of them
        self._taken_up: tuple[Rest, Answers] | None = None  # the run that the next step goes on with
        self._needs: str | None = None  # what the commit does with the saved run: empty forgets it

    # -- being the owner -------------------------------------------------------------------------------------------

    def lose(self) -> None:
        """Somebody else owns now: stop the model, show and write nothing more."""
        self._lost = True
        if self._waiting is not None:
            self._waiting.set()
        if self._run is not None:
            self._run.stop()

    async def verify(self) -> None:
        """Renew the lease; `lose` when the token is not the owner's any more."""
        async with self._writing:
            try:
                await self._store.renew(self.conversation_id, self.token)
            except StaleOwner:
                self.lose()
            except StoreError as error:
                log.warning("%s: could not renew the turn: %s", self.conversation_id, error)

    def broke(self, why: str) -> None:
        """It does not go on, for this reason; `broken` is the record of what comes to nothing."""
        self._record.failed(why)

    def broken(self) -> Recorded:
        return self._record.part("broken", f"ai:{self.owner_id}", f"ai:{self.owner_id}")

    # -- the turn --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Answer everything that waits. Raises StaleOwner when somebody else took over meanwhile."""
        await self._values.load()
        self._record.lasting = self._values.lasting()
        session = self._session(self.owner_id, self._history)
        await self._observing.tell("turn_start", owner=f"ai:{self.owner_id}", turn=self._turn_id)
        if self._state.rest is not None:
            session = await self._wake(session, self._state.rest)
        while self._pending:
            session = await self._step_once(session)

    async def _step_once(self, session: IsolatedSession) -> IsolatedSession:
        spec = self._team.spec(session.agent_id)
        self._take_batch(spec)
        self._record.begin(self._batch)
        self._read_language()
        if spec is None or spec.disabled:
            return await self._follow_successor(session)
        if self._attempts > MAX_ATTEMPTS:
            said = Said(new_message_id(), error=ModelFailed(spec.id, f"{self._attempts - 1} attempts did not end"))
        else:
            said = await self._hear_out(spec, session)
        self._record.heard(said.text, session.new_items, said.refusals, said.error)
        self._attempts = 0
        if (found := tripped(said.error)) is not None:
            return await self._guard(spec, session, said, found)
        if said.error is not None:
            return await self._degrade(spec, session, said)
        if said.waits is not None:
            return await self._wait(spec, session, said, said.waits)
        if said.request is not None:
            return await self._transfer(spec, session, said, said.request)
        plan = next_in_plan(self._roster, spec, self._state, self._values.get, self._team.closed)
        if plan:
            return await self._hand_on(spec, session, said, plan)
        if spec.targets and (sentence_ := announced(said.text)):
            said = await self._only_announced(spec, session, said, sentence_)
            if said.request is not None:
                return await self._transfer(spec, session, said, said.request)
        return await self._answer(spec, session, said)

    def _session(self, agent_id: str, history: list[Item]) -> IsolatedSession:
        return IsolatedSession(
            self._store, self.conversation_id, agent_id, self.token, history, self._values, self._told
        )

    def _read_language(self) -> None:
        language = self._state.language
        for message in self._batch:
            hint = language or str(message.data.get("lang", ""))
            language = detect_language(message.text, self._roster.desk.languages, hint)
        self._state = self._state.model_copy(update={"language": language})

    def _take_batch(self, spec: AgentSpec | None) -> None:
        rule = spec.burst if spec is not None else Burst()
        self._batch = self._pending[: self._held] if self._held else batch(rule, self._pending)

    async def _hear_out(self, spec: AgentSpec, session: IsolatedSession) -> Said:
        """Let the agent speak; with `burst:` in its file after a pause of the customer, and again when they go on."""
        if spec.burst.debounce and self._taken_up is None:
            self._waiting = asyncio.Event()
            self._pending = await settled(self._store, self.conversation_id, spec.burst, self._pending, self._waiting)
            self._begin_again(spec)
        while (said := await self._speak(spec, session)) is None:
            session.keep(())
            self._pending = await self._store.inbox(self.conversation_id)
            self._begin_again(spec)
        return said

    def _begin_again(self, spec: AgentSpec) -> None:
        self._take_batch(spec)
        self._record.again(self._batch)
        self._read_language()

    async def _only_announced(self, spec: AgentSpec, session: IsolatedSession, said: Said, sentence_: str) -> Said:
        """The answer says that it transfers, and nothing was asked for: recorded, and by the route asked once more.

        The customer reads the first answer in any case; of the second only a transfer counts.
        """
        self._alarms.ring("announced_only", self.conversation_id, spec.id)
        self._noticed.append(NewEvent("handoff.announced_only", {"from": spec.id, "text": sentence_}))
        if spec.announced != "ask_again":
            return said
        first = list(session.new_items)
        again = await self._speak(spec, session, reminder=REMINDER)
        if again is None or again.error is not None or again.waits is not None or not (again.request or again.tools):
            session.keep(first)
            return said
        new = [item for item in session.new_items[len(first) :] if item != REMINDER and item.get("role") != "assistant"]
        session.keep([*first, *new])
        both = replace(
            said,
            request=again.request,
            refusals=(*said.refusals, *again.refusals),
            tools=(*said.tools, *again.tools),
        )
        self._record.heard(both.text, session.new_items, both.refusals, None)
        return both

    async def _speak(self, spec: AgentSpec, session: IsolatedSession, *, reminder: Item | None = None) -> Said | None:
        """What the agent said; None when the customer went on before anything of it could be seen.

        With a `reminder` it is asked that, and the customer sees nothing of it.
        """
        ledger = Ledger(self._store, self.conversation_id, self.token)
        context = TurnContext(
            conversation_id=self.conversation_id,
            agent_id=spec.id,
            epoch=self.token.epoch,
            language=self._state.language,
            values=AgentValues(self._values, self._roster, spec),
            data_dir=self._team.data_dir,
            turn_id=self._turn_id,
            variables=dict(self._roster.desk.variables),
            ledger=ledger,
            recorder=self._record,
            asks=self._asks,
            observe=self._observing.show,
        )
        agent = self._team.agent(spec, context, self._state)
        self._record.model = agent.model if isinstance(agent.model, str) else type(agent.model).__name__
        by = {"kind": "ai", "id": spec.id, "name": self._roster.display_name(spec.id, self._state.language)}
        relay = Relay(self._store, self.conversation_id, self.token, by, self.lose)
        run = self._run = AgentRun(agent, spec, context, relay, self._team.run_config)
        if self._lost:
            run.stop()
        await self._observing.tell("agent_start", path=[spec.id])
        asked = [customer_item(message.text) for message in self._batch] if reminder is None else [reminder]
        if reminder is not None:
            await relay.close()
        restart: Restart | None = None
        may_grow = reminder is None and 0 < len(self._batch) < spec.burst.cap
        if self._taken_up is not None and reminder is None:
            said = await self._go_on(run, agent, context, session, asked, *self._taken_up)
        elif may_grow and spec.burst.policy == "restart" and self._follow is not None:
            before = self._values.changes
            newest = self._batch[-1].seq
            restart = Restart(
                run, newest, lambda: not relay.sent and not ledger.used and self._values.changes == before
            )
            async with listening(self._follow, self.conversation_id, restart, newest):
                said = await run.speak(session, asked)
        else:
            said = await run.speak(session, asked)
        await self._observing.tell("agent_end", path=[spec.id], failed=str(said.error or ""))
        if self._lost:
            raise StaleOwner(self.conversation_id, owner="somebody else", epoch=self.token.epoch)
        return None if restart is not None and restart.wanted else said

    # -- approvals -------------------------------------------------------------------------------------------------

    async def _wait(
        self, spec: AgentSpec, session: IsolatedSession, said: Said, waits: Interruption
    ) -> IsolatedSession:
        """Ask about the calls, keep what was said and done, and give the turn back until somebody has decided."""
        before = self._taken_up[0] if self._taken_up else None
        place = f"{self.conversation_id}:{self._tenure}:{self._turn_id}"
        calls = named(waits.wishes, before, place, self._asked)
        known, self._asked = self._asked, tuple(dict.fromkeys((*self._asked, *(call.approval_id for call in calls))))
        session.keep(pair_safe(with_results(session.new_items)))
        rest = Rest(
            agent=spec.id,
            tenure=self._tenure,
            turn=self._turn_id,
            asked=len(self._batch),
            kept=len(session.new_items),
            told=said.made,
            calls=calls,
            ids=self._asked,
            line=before.line if before else False,
            request=said.request,
        )
        self._state = self._state.model_copy(update={"rest": rest})
        events = self._records(spec, said)
        if said.text:
            events.append(self._message(spec, said))
        asks = questions(self._roster, spec, calls, known)
        if asks:
            text = told(self._roster, spec, calls, self._state.language)
            events.append(NewEvent("notice", {"text": text}, by="system"))
        writes, me = self._values.writes(), f"ai:{spec.id}"
        async with self._writing:
            done = await session.commit(
                self._request_id(),
                events=events,
                values=writes,
                meta=self._meta(),
                asks=asks,
                rest=True,
                needs=waits.state,
                record=self._record.part("waiting", me, me, self._values.changed()),
            )
        self._values.settle()
        self._remember(spec, said, done.seq)
        self._pending = ()
        return session

    async def _wake(self, session: IsolatedSession, rest: Rest) -> IsolatedSession:
        """Something happened while the turn rested: a decision, a customer's message, or a change of owner."""
        spec = self._team.spec(session.agent_id)
        if spec is None or not rest.holds(session.agent_id, self._tenure):
            self._state = self._state.model_copy(update={"rest": None})
            self._needs = ""
            return session
        if rest.undecided(self._undecided):
            await self._rest_on(spec, rest)
            return session
        approvals, saved = await self._store.resting(self.conversation_id, [call.approval_id for call in rest.calls])
        found = answers(rest, approvals, saved)
        update = {"rest": None, "labels": labels(self._state.labels, found.labels)}
        self._state = self._state.model_copy(update=update)
        self._held, self._needs = rest.asked, ""
        self._turn_id, self._asked, self._taken_up = rest.turn, rest.ids, (rest, found)
        session = await self._step_once(session)
        self._taken_up = None
        return session

    async def _rest_on(self, spec: AgentSpec, rest: Rest) -> None:
        """Nothing is decided yet: what came meanwhile waits, and the customer is told so if the route wants it."""
        line = holding_line(self._roster, spec, rest, len(self._pending), self._state.language)
        if line:
            self._state = self._state.model_copy(update={"rest": rest.model_copy(update={"line": True})})
        self._record.begin(self._pending)
        me = f"ai:{spec.id}"
        async with self._writing:
            await self._store.commit(
                self.conversation_id,
                self.token,
                self._request_id(),
                events=[NewEvent("notice", {"text": line}, by="system")] if line else [],
                meta=self._meta(),
                rest=True,
                record=self._record.part("waiting", me, me),
            )
        self._pending = ()

    async def _go_on(
        self,
        run: AgentRun,
        agent: Agent[TurnContext],
        context: TurnContext,
        session: IsolatedSession,
        asked: list[Item],
        rest: Rest,
        found: Answers,
    ) -> Said:
        """The run that rested, from where it stopped. The transfer that it wished as well follows, unless refused."""
        context.released = Released(self._store, self.conversation_id, self.token, rest.turn, found.granted)
        if not found.refused:
            context.request = rest.request
        try:
            state = await resumed(agent, context, rest, found)
        except Exception as error:  # the SDK cannot read a state of another version, or of an agent without this tool
            log.warning("%s: %s cannot go on: %s", self.conversation_id, agent.name, error)
            return Said(new_message_id(), error=ModelFailed(agent.name, f"its run could not be taken up: {error}"))
        said = await run.speak(session, asked, state)
        if said.made:
            session.unwind(rest.kept)
        else:
            session.keep([])
        return said

    # -- and make it true ------------------------------------------------------------------------------------------

    async def _answer(self, spec: AgentSpec, session: IsolatedSession, said: Said) -> IsolatedSession:
        self._rest()
        writes = self._values.writes()
        async with self._writing:
            done = await session.commit(
                self._request_id(),
                answered=len(self._batch),
                events=[*self._records(spec, said), self._message(spec, said)],
                values=writes,
                meta=self._meta(),
                record=self._record.part("answered", f"ai:{spec.id}", f"ai:{spec.id}", self._values.changed()),
                needs=self._needs,
            )
        self._values.settle()
        self._remember(spec, said, done.seq)
        self._seen[spec.id] = done.seq
        self._pending, self._held = done.pending, 0
        return session

    async def _transfer(
        self, spec: AgentSpec, session: IsolatedSession, said: Said, request: TransferRequest
    ) -> IsolatedSession:
        language = self._state.language
        to = request.to
        text = self._roster.announcement(to, language)
        if to.startswith(HUMAN):
            text = self._people_text("loop_to_queue" if request.decided_by == "loop_guard" else "to_queue", to)
        if request.decided_by == "loop_guard":
            self._alarms.ring("loop_guard", self.conversation_id, spec.id, request.reason)
        before = self._records(spec, said)
        if said.text:
            before.append(self._message(spec, said))
        session.keep(without_refused(session.new_items))
        self._held = 0
        return await self._move(spec, session, request, text=text, before=before, said=said)

    async def _hand_on(
        self, spec: AgentSpec, session: IsolatedSession, said: Said, plan: tuple[Step, ...]
    ) -> IsolatedSession:
        """The answer, and the transfer that the agent file orders after it. No model decides.

        The messages count as answered when the last of the plan has spoken, so a crash in between loses none.
        """
        step = plan[0]
        request = TransferRequest(to=step.to, reason=f"the route of {spec.id} goes on there", decided_by="rule")
        own = await session.get_items()
        await session.add_items(transfer_record(request.to))
        text = self._roster.announcement(request.to, self._state.language)
        if request.to.startswith(HUMAN):
            text = self._people_text("to_queue", request.to)
        before = [*self._records(spec, said), self._message(spec, said)]
        answered = len(self._batch) if request.to.startswith(HUMAN) else 0
        self._held = len(self._batch) if spec.burst.policy == "queue" else self._held
        return await self._move(
            spec,
            session,
            request,
            text=text,
            before=before,
            said=said,
            plan=plan[1:],
            answered=answered,
            hidden=own if step.hidden else None,
        )

    async def _guard(self, spec: AgentSpec, session: IsolatedSession, said: Said, found: Tripped) -> IsolatedSession:
        """A guardrail stopped the agent: nothing of the run is shown or remembered, the route says who owns now."""
        self._alarms.ring("guardrail", self.conversation_id, spec.id, found.name)
        language = self._state.language
        before = self._records(spec, said)
        if said.shown:
            before.append(NewEvent("msg.retracted", {"id": said.message_id}, by="system"))
        details = {"agent": spec.id, "guardrail": found.name, "side": found.side}
        before.append(NewEvent("guardrail.tripped", details, by="system"))
        session.keep(())
        self._failures += 1
        to = self._roster.on_error(spec.id) if self._failures == 1 else exit_target(self._roster, spec)
        if spec.on_guardrail == "stay" or to == spec.id or (to in self._roster and self._failures > 1):
            return await self._stay(session, before, sentence("guarded", language))
        text = sentence("guarded_to_agent", language, name=self._roster.display_name(to, language))
        if to.startswith(HUMAN):
            text = self._people_text("guarded_to_queue", to)
        why = f"the guardrail {found.name} of {spec.id} stopped its {found.side}"
        request = TransferRequest(to=to, reason=why, decided_by="guardrail")
        return await self._move(spec, session, request, text=text, before=before, said=said)

    async def _degrade(self, spec: AgentSpec, session: IsolatedSession, said: Said) -> IsolatedSession:
        """The defined next owner after a failure, and a sentence for the customer. Never silence."""
        self._failures += 1
        log.warning("%s: %s failed: %s", self.conversation_id, spec.id, said.error)
        to = self._roster.on_error(spec.id) if self._failures == 1 else exit_target(self._roster, spec)
        language = self._state.language
        before = self._records(spec, said)
        if said.shown:
            before.append(NewEvent("msg.retracted", {"id": said.message_id}, by="system"))
        before.append(NewEvent("turn.failed", {"agent": spec.id, "why": str(said.error)[:500]}, by="system"))
        session.keep(pair_safe(session.new_items or [customer_item(message.text) for message in self._batch]))
        if to == spec.id or (to in self._roster and self._failures > 1):
            return await self._stay(session, before, sentence("failed_stay", language))
        text = sentence("failed_to_agent", language, name=self._roster.display_name(to, language))
        if to.startswith(HUMAN):
            text = self._people_text("failed_to_queue", to)
        request = TransferRequest(to=to, reason=f"{spec.id} could not answer", decided_by="failure")
        return await self._move(spec, session, request, text=text, before=before, said=said)

    async def _stay(self, session: IsolatedSession, before: list[NewEvent], text: str) -> IsolatedSession:
        self._rest()
        writes, me = self._values.writes(), f"ai:{session.agent_id}"
        async with self._writing:
            done = await session.commit(
                self._request_id(),
                answered=len(self._batch),
                events=[*before, NewEvent("notice", {"text": text}, by="system")],
                values=writes,
                meta=self._meta(),
                record=self._record.part("failed", me, me, self._values.changed()),
                needs=self._needs,
            )
        self._values.settle()
        self._pending, self._held = done.pending, 0
        return session

    async def _follow_successor(self, session: IsolatedSession) -> IsolatedSession:
        """The owner is not in the roster any more: its successor, or the start agent, goes on."""
        gone = session.agent_id
        to = self._roster.successor(gone)
        spec = AgentSpec(id=gone if gone.isidentifier() else "gone", intended_use="An agent that was removed.")
        request = TransferRequest(to=to, reason=f"agent {gone} is not on the desk any more", decided_by="system")
        language = self._state.language
        text = self._roster.announcement(to, language)
        if to.startswith(HUMAN):
            text = self._people_text("to_queue", to)
        return await self._move(spec, session, request, text=text, before=[], said=Said(new_message_id()))

    async def _move(
        self,
        spec: AgentSpec,
        session: IsolatedSession,
        request: TransferRequest,
        *,
        text: str,
        before: list[NewEvent],
        said: Said,
        plan: tuple[Step, ...] = (),
        answered: int = 0,
        hidden: list[Item] | None = None,
    ) -> IsolatedSession:
        """Commit and change the owner. `hidden`: the next agent is not told by whom, and sees only these items."""
        owner = owner_of(request.to)
        request = masked_request(request, masker(self._roster, self._values.get))
        details = self._details(session.agent_id, request)
        requested = [NewEvent("handoff.requested", details), NewEvent("handoff.accepted", details)]
        self._state = self._state.moved(session.agent_id, request.to, plan=plan)
        if owner.kind is not OwnerKind.AI:
            self._rest()
        seed: list[Item] = []
        shown: dict[str, Any] = {}
        if owner.kind is OwnerKind.AI:
            seed = [await self._seed(session, owner.id, request, said, hidden)]
            readable = AgentValues(self._values, self._roster, self._roster[owner.id]).known()
            shown = stored(seed[0], (key for key, _ in readable))
        writes, outcome = self._values.writes(), "failed" if said.error else "transferred"
        async with self._writing:
            done = await session.transfer(
                self._request_id(),
                to=owner,
                change={**details, "text": text, **self._names(session.agent_id, request.to)},
                answered=answered,
                before=[*before, *requested],
                after=[NewEvent("handoff.completed", {**details, **shown})],
                seed=seed,
                values=writes,
                meta=self._meta(),
                record=self._record.part(outcome, f"ai:{session.agent_id}", owner.ref, self._values.changed(), request),
                go_on=owner.kind is OwnerKind.AI,
            )
            self.token = done.token
            self._tenure = done.token.epoch
            self.owner_id = owner.id
        self._values.settle()
        self._remember(spec, said, done.seq)
        self._seen[session.agent_id] = done.seq
        if owner.kind is not OwnerKind.AI:
            self._pending = ()
            return session
        self._seen[owner.id] = done.seq
        self._pending = done.pending
        return self._session(owner.id, [*done.history, *seed])

    # -- pieces ----------------------------------------------------------------------------------------------------

    def _people_text(self, key: str, to: str) -> str:
        """The sentence for a transfer to a human queue; outside its hours, also when people will be there."""
        language = self._state.language
        text = sentence(key, language, name=self._roster.display_name(to, language))
        queue = self._roster.desk.queues.get(to.removeprefix(HUMAN))
        if queue is None or queue.is_open(self._team.clock()):
            return text
        closed = self._roster.text(queue.closed, language) if queue.closed else sentence("closed", language)
        return f"{text} {closed}"

    async def _seed(
        self, session: IsolatedSession, to_id: str, request: TransferRequest, said: Said, hidden: list[Item] | None
    ) -> Item:
        from_id = session.agent_id
        now = [Line(NOT_YET, said.message_id, f"ai:{from_id}", said.text)] if said.text and said.error is None else []
        past = Past(
            store=self._store,
            team=self._team,
            conversation_id=self.conversation_id,
            newest_first=self._read_log,
            back_to=self._log_from,
            seen=self._seen,
            pending=[message.seq for message in self._pending],
            value=self._values.get,
            fresh=[*self._lines, *now],
            own={from_id: await session.get_items() if hidden is None else hidden},
        )
        quiet = Handing("", "", request.brief)
        handing = Handing(from_id, request.reason, request.brief) if hidden is None else quiet
        seed, self._state = await seed_for(past, self._roster[to_id], handing, self._state)
        return seed

    def _details(self, from_id: str, request: TransferRequest) -> dict[str, Any]:
        brief = request.brief.model_dump(exclude_defaults=True, mode="json")
        return {
            "from": from_id,
            "to": request.to,
            "reason": request.reason,
            "brief": brief,
            "decided_by": request.decided_by,
        }

    def _names(self, from_id: str, to: str) -> dict[str, str]:
        language = self._state.language
        return {
            "from_name": self._roster.display_name(from_id, language),
            "to_name": self._roster.display_name(to, language),
        }

    def _message(self, spec: AgentSpec, said: Said) -> NewEvent:
        name = self._roster.display_name(spec.id, self._state.language)
        return NewEvent("msg.created", {"id": said.message_id, "text": said.text, "name": name})

    def _records(self, spec: AgentSpec, said: Said) -> list[NewEvent]:
        tools = [NewEvent("tool.called", {"agent": spec.id, "tool": name}) for name in said.tools if name != TRANSFER]
        refused = (NewEvent("handoff.refused", {"from": spec.id, **refusal}) for refusal in said.refusals)
        noticed, self._noticed = self._noticed, []
        return [*tools, *refused, *noticed]

    def _remember(self, spec: AgentSpec, said: Said, seq: int) -> None:
        if said.text and said.error is None:
            self._lines.append(Line(seq, said.message_id, f"ai:{spec.id}", said.text))

    def _rest(self) -> None:
        """The customer is next: what only this turn needed is forgotten."""
        self._state = self._state.rested()
        self._values.rest()

    def _meta(self) -> dict[str, Any]:
        return self._values.kept_in(self._state).dump()

    def _request_id(self) -> str:
        self._step += 1
        return f"turn:{self.token.epoch}:{self._step}"


def transfer_record(to: str) -> list[Item]:
    """What a reader of the old owner's history expects of a transfer that a rule made: the call and its result."""
    call_id = f"auto_{secrets.token_hex(8)}"
    arguments = json.dumps({"agent_id": to})
    return [
        {"type": "function_call", "call_id": call_id, "name": TRANSFER, "arguments": arguments},
        {"type": "function_call_output", "call_id": call_id, "output": json.dumps({"transferring_to": to})},
    ]
