"""The part of a turn around approvals: it rests on a question, and goes on with exactly the call that was asked for."""

from __future__ import annotations

import logging

from agents import Agent

from handoffs.approvals import (
    Answers,
    Interruption,
    Released,
    holding_line,
    questions,
    resumed,
    told,
)
from handoffs.context import TurnContext
from handoffs.errors import ModelFailed
from handoffs.relay import new_message_id
from handoffs.rested_transfer import checked_again
from handoffs.roster import AgentSpec
from handoffs.run import AgentRun, Said
from handoffs.turn_base import TurnBase
from handoffs.waiting import Rest, named, with_results
from sessions.isolated import IsolatedSession, pair_safe
from sessions.model import Item, NewEvent

log = logging.getLogger("frontdesk.turn")


class Rests(TurnBase):
    """A rest is committed like an answer; a decision wakes it up, in any process."""

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
        spec: AgentSpec,
        agent: Agent[TurnContext],
        context: TurnContext,
        session: IsolatedSession,
        asked: list[Item],
        rest: Rest,
        found: Answers,
    ) -> Said:
        """The run that rested, from where it stopped. The transfer that it wished as well follows, unless refused."""
        context.released = Released(self._store, self.conversation_id, self.token, rest.turn, found.granted)
        if not found.refused and rest.request is not None:
            found = checked_again(self._roster, spec, context, rest.request, found)
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
