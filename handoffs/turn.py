"""One turn: from a customer's waiting messages to the next quiet moment, through as many owners as it takes.

Run the owner's agent, then commit its work, or commit and transfer in one call and go on as the new owner.
"""

from __future__ import annotations

from handoffs.announced import announced
from handoffs.approvals import answers
from handoffs.errors import ModelFailed
from handoffs.guardrails import tripped
from handoffs.policy import PlanStopped, next_in_plan
from handoffs.relay import new_message_id
from handoffs.run import Said
from handoffs.turn_moves import Moves
from handoffs.turn_speech import Speech
from handoffs.waiting import Rest, labels
from sessions.isolated import IsolatedSession

MAX_ATTEMPTS = 3  # a turn that died this often goes to people instead of round again


class Turn(Speech, Moves):
    """A claimed turn. `run` ends when the customer is next, when people own, or with StaleOwner.

    Somebody must call `verify` a few times in each lease while it runs: the router does. `follow` gives a
    conversation's live events, for routes that begin again when the customer writes on. `told` hears what is written.
    """

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
        self._name_step()
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
        if isinstance(plan, PlanStopped):
            self._plan_stopped(spec, plan)
        elif plan:
            return await self._hand_on(spec, session, said, plan)
        if spec.targets and (sentence_ := announced(said.text)):
            said = await self._only_announced(spec, session, said, sentence_)
            if said.request is not None:
                return await self._transfer(spec, session, said, said.request)
        return await self._answer(spec, session, said)

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
