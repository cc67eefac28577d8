"""How a turn becomes true: each way to commit it, and to move the conversation in the same instant."""

from __future__ import annotations

import json
import logging
import secrets
from typing import Any

from handoffs.executed import executed, facts
from handoffs.guardrails import Tripped
from handoffs.history import Line, customer_item
from handoffs.masking import masked_request, masker
from handoffs.policy import PlanStopped, exit_target, owner_of
from handoffs.relay import new_message_id
from handoffs.remembered import without_refused
from handoffs.roster import HUMAN, AgentSpec, Step
from handoffs.run import Said
from handoffs.seeds import NOT_YET, Handing, Past, seed_for, stored
from handoffs.shared_values import AgentValues
from handoffs.texts import sentence
from handoffs.tools import TRANSFER
from handoffs.transfer import Brief, TransferRequest
from handoffs.turn_base import TurnBase
from sessions.isolated import IsolatedSession, pair_safe
from sessions.model import Item, NewEvent, OwnerKind

log = logging.getLogger("frontdesk.turn")


class Moves(TurnBase):
    """Each method commits and gives the session that goes on."""

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

    def _plan_stopped(self, spec: AgentSpec, stopped: PlanStopped) -> None:
        """The customer has an answer and the agent that gave it stays; operators hear that the plan ended early."""
        self._alarms.ring("loop_guard", self.conversation_id, spec.id, stopped.why)
        refused = {"from": spec.id, "to": stopped.to, "why": stopped.why, "decided_by": "loop_guard"}
        self._noticed.append(NewEvent("handoff.refused", refused, by="system"))

    async def _guard(self, spec: AgentSpec, session: IsolatedSession, said: Said, found: Tripped) -> IsolatedSession:
        """A guardrail stopped the agent: nothing that was said is shown or remembered, the route says who owns now.

        What was done stays in the agent's history, so that it is not done again, and the next owner is told.
        """
        self._alarms.ring("guardrail", self.conversation_id, spec.id, found.name)
        language = self._state.language
        before = self._records(spec, said)
        if said.shown:
            before.append(NewEvent("msg.retracted", {"id": said.message_id}, by="system"))
        details = {"agent": spec.id, "guardrail": found.name, "side": found.side}
        before.append(NewEvent("guardrail.tripped", details, by="system"))
        done = executed(spec, session.new_items)
        session.keep(done)
        self._failures += 1
        to = self._roster.on_error(spec.id) if self._failures == 1 else exit_target(self._roster, spec)
        if spec.on_guardrail == "stay" or to == spec.id or (to in self._roster and self._failures > 1):
            return await self._stay(session, before, sentence("guarded", language))
        text = sentence("guarded_to_agent", language, name=self._roster.display_name(to, language))
        if to.startswith(HUMAN):
            text = self._people_text("guarded_to_queue", to)
        why = f"the guardrail {found.name} of {spec.id} stopped its {found.side}"
        request = TransferRequest(to=to, reason=why, brief=Brief(facts=facts(done)), decided_by="guardrail")
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


def transfer_record(to: str) -> list[Item]:
    """What a reader of the old owner's history expects of a transfer that a rule made: the call and its result."""
    call_id = f"auto_{secrets.token_hex(8)}"
    arguments = json.dumps({"agent_id": to})
    return [
        {"type": "function_call", "call_id": call_id, "name": TRANSFER, "arguments": arguments},
        {"type": "function_call_output", "call_id": call_id, "output": json.dumps({"transferring_to": to})},
    ]
