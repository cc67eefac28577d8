"""The part of a turn in which the agent speaks: for which messages, how often, and until when."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from handoffs.burst import Restart, listening, settled
from handoffs.context import Asks, TurnContext
from handoffs.history import customer_item
from handoffs.ledger import Ledger
from handoffs.relay import Relay
from handoffs.roster import AgentSpec
from handoffs.run import AgentRun, Said
from handoffs.shared_values import AgentValues
from handoffs.transfer import TransferRequest
from handoffs.turn_rests import Rests
from handoffs.waiting import Wish
from sessions.errors import StaleOwner
from sessions.isolated import IsolatedSession, pair_safe
from sessions.model import Item, NewEvent

log = logging.getLogger("frontdesk.turn")

REMINDER: Item = {
    "role": "system",
    "content": "You told the customer that you transfer the conversation, but transfer_to_agent was not called, so "
    "nothing happened. Call it now if somebody else should take over. Otherwise say only: ok",
}


def not_rested(wish: Wish, request: TransferRequest | None) -> dict[str, str]:
    """The refusal of a call that needs somebody's word, in a run whose answer nobody sees."""
    why = f"{wish.tool} was wished instead of the announced transfer; it needs approval and was not done."
    return {"to": request.to if request else "", "why": why}


class Speech(Rests):
    """Gives what was said; nothing is committed here."""

    async def _hear_out(self, spec: AgentSpec, session: IsolatedSession) -> Said:
        """Let the agent speak; with `burst:` in its file after a pause of the customer, and again when they go on."""
        if spec.burst.debounce and self._taken_up is None:
            self._waiting = asyncio.Event()
            self._pending = await settled(self._store, self.conversation_id, spec.burst, self._pending, self._waiting)
            self._begin_again(spec)
        asked = self._asks.made
        while (said := await self._speak(spec, session)) is None:
            session.keep(())
            self._asks = Asks(asked)  # what the run that came to nothing has asked counts no more
            self._pending = await self._store.inbox(self.conversation_id)
            self._begin_again(spec)
        return said

    def _begin_again(self, spec: AgentSpec) -> None:
        self._take_batch(spec)
        self._record.again(self._batch)
        self._read_language()

    async def _only_announced(self, spec: AgentSpec, session: IsolatedSession, said: Said, sentence_: str) -> Said:
        """The answer says that it transfers, and nothing was asked for: recorded, and by the route asked once more.

        The customer reads the first answer in any case; of the second only a transfer counts. A call of it that waits
        for somebody's word is not asked about: nobody was told that there is one. It is recorded as refused.
        """
        self._alarms.ring("announced_only", self.conversation_id, spec.id)
        self._noticed.append(NewEvent("handoff.announced_only", {"from": spec.id, "text": sentence_}))
        if spec.announced != "ask_again":
            return said
        first = list(session.new_items)
        again = await self._speak(spec, session, reminder=REMINDER)
        waits = again.waits.wishes if again is not None and again.waits is not None else ()
        if again is None or again.error is not None or not (again.request or again.tools or waits):
            session.keep(first)
            return said
        new = [item for item in session.new_items[len(first) :] if item != REMINDER and item.get("role") != "assistant"]
        session.keep([*first, *(pair_safe(new) if waits else new)])
        both = replace(
            said,
            request=again.request,
            refusals=(*said.refusals, *again.refusals, *(not_rested(wish, again.request) for wish in waits)),
            tools=(*said.tools, *again.tools),
        )
        self._record.heard(both.text, session.new_items, both.refusals, None)
        return both

    async def _speak(self, spec: AgentSpec, session: IsolatedSession, *, reminder: Item | None = None) -> Said | None:
        """What the agent said; None when the customer went on before anything of it could be seen.

        With a `reminder` it is asked that, and the customer sees nothing of it.
        """
        ledger = Ledger(self._store, self.conversation_id, self.token, self._settled_calls)
        context = TurnContext(
            conversation_id=self.conversation_id,
            agent_id=spec.id,
            epoch=self.token.epoch,
            language=self._state.language,
            values=AgentValues(self._values, self._roster, spec),
            data_dir=self._team.data_dir,
            turn_id=self._turn_id,
            step=self._place,
            variables=dict(self._roster.desk.variables),
            ledger=ledger,
            recorder=self._record,
            asks=self._asks,
            alarms=self._alarms,
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
            said = await self._go_on(run, spec, agent, context, session, asked, *self._taken_up)
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
