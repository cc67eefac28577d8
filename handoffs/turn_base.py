"""What every part of a turn has: the grant, the token, what was said so far, and the pieces of a commit."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from handoffs.alarms import Alarms
from handoffs.approvals import (
    Answers,
)
from handoffs.burst import Follow, batch
from handoffs.context import Asks
from handoffs.history import Line
from handoffs.observing import Observing
from handoffs.record import MARK
from handoffs.recorder import Recorder
from handoffs.roster import AgentSpec, Burst
from handoffs.run import AgentRun, Said
from handoffs.state import RouterState, detect_language
from handoffs.team import Team
from handoffs.tools import TRANSFER
from handoffs.transfer import TransferRequest
from handoffs.turn_values import TurnValues
from handoffs.waiting import Rest
from sessions.errors import StaleOwner, StoreError
from sessions.isolated import IsolatedSession, Told
from sessions.model import Grant, Item, NewEvent, Recorded
from sessions.store import Store

log = logging.getLogger("frontdesk.turn")


class TurnBase:
    """A claimed turn that can be lost. `follow` gives live events, `told` hears what is written (see Turn)."""

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
        self._tenure = grant.conversation.tenure
        self._place = f"{self._turn_id}:{self._tenure}"
        self._values = TurnValues(store, grant, self._turn_id, self._roster.desk.values, self._state)
        self._settled_calls: set[str] = set()  # whose changes of values this turn has in its working copy
        self._undecided = grant.conversation.asks
        self._asked: tuple[str, ...] = ()  # approvals of this turn, whatever became of them
        self._taken_up: tuple[Rest, Answers] | None = None  # the run that the next step goes on with
        self._needs: str | None = None  # what the commit does with the saved run: empty forgets it

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

    def _name_step(self) -> None:
        """Name the turn after its messages, and this part of it up to the next commit: the same whoever runs it again.

        A commit in between takes the messages away, changes the owner, or rests on more or fewer questions.
        """
        turn = str(self._batch[0].seq) if self._batch else self._turn_id
        if turn != self._turn_id:
            self._turn_id, self._asked = turn, ()
        rest = self._taken_up[0] if self._taken_up is not None else None
        self._place = f"{turn}:{self._tenure}" + (f":{len(rest.ids)}:{len(rest.calls)}" if rest else "")
        self._values.begin(turn, self._place)

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

    def _rest(self) -> None:
        """The customer is next: what only this turn needed is forgotten."""
        self._state = self._state.rested()
        self._values.rest()

    def _meta(self) -> dict[str, Any]:
        return self._values.kept_in(self._state).dump()

    def _request_id(self) -> str:
        self._step += 1
        return f"turn:{self.token.epoch}:{self._step}"
