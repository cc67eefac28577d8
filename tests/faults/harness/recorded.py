"""A Store that writes down every operation, and tags every write, so that the log itself proves what took effect.

The tag is `data[TAG]` of the first event of a write: `rid` the request, `e` the epoch of the token that was used, `n`
how many waiting messages it answered, and `saw` which ones the worker believed these to be (people do not say).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sessions.connect import Backend
from sessions.errors import (
    Conflict,
    NotClaimable,
    OwnerBusy,
    StaleOwner,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from sessions.model import (
    Attention,
    Committed,
    Conversation,
    Ephemeral,
    Grant,
    NewEvent,
    Owner,
    Pending,
    Receipt,
    Taken,
    Token,
    Transferred,
)
from sessions.scripts import Scripts
from sessions.store import Store, new_fence
from tests.faults.harness.history import UNKNOWN, Journal

TAG = "proof"
SCRIPT_KINDS = frozenset(
    ("enqueue", "claim", "renew", "release", "commit", "transfer", "takeover", "relay", "attend")
)  # one script call or more each; `get` is a read
T = TypeVar("T")


class RecordedStore(Store):
    """A real Store; nothing is changed but the tag inside the events."""

    def __init__(
        self, backend: Backend, journal: Journal, *, worker: str, lease_ms: int, scripts: Scripts | None = None
    ) -> None:
        super().__init__(backend, worker=worker, lease_ms=lease_ms, scripts=scripts)
        self._journal = journal
        self._saw: dict[str, tuple[int, ...]] = {}  # fence -> the messages that wait, as the worker knows them

    async def _recorded(
        self,
        number: int,
        work: Awaitable[T],
        answer: Callable[[T], Mapping[str, Any]],
    ) -> T:
        try:
            result = await work
        except (StoreError, NotClaimable) as error:
            self._journal.end(number, *_refusal(error)[:1], **_refusal(error)[1])
            raise
        except BaseException as error:
            self._journal.end(number, UNKNOWN, error=repr(error)[:200])
            raise
        facts = dict(answer(result))
        self._journal.end(number, str(facts.pop("outcome", "ok")), **facts)
        return result

    # -- what Store does, written down -----------------------------------------------------------------------------

    async def enqueue(
        self,
        conversation_id: str,
        message_id: str,
        data: Mapping[str, Any],
        *,
        start: Owner,
        meta: Mapping[str, Any] | None = None,
        claim: bool = False,
        hint: str = "",
    ) -> Receipt:
        request = f"msg:{message_id}"
        number = self._journal.begin("enqueue", conversation_id, request, claim=claim)
        tagged = {**data, TAG: {"rid": request}}
        work = super().enqueue(conversation_id, message_id, tagged, start=start, meta=meta, claim=claim, hint=hint)

        def answer(receipt: Receipt) -> dict[str, Any]:
            granted = self._granted(receipt.grant)
            outcome = "dup" if receipt.duplicate else "ok"
            return {"outcome": outcome, "ids": [receipt.event_id], "owner": receipt.owner.ref, **granted}

        return await self._recorded(number, work, answer)

    async def claim(self, conversation_id: str, *, hint: str = "-", fence: str = "") -> Grant:
        fence = fence or new_fence()
        number = self._journal.begin("claim", conversation_id, fence=fence)
        work = super().claim(conversation_id, hint=hint, fence=fence)
        return await self._recorded(number, work, self._granted)

    async def renew(self, conversation_id: str, token: Token, *, lease_ms: int | None = None) -> int:
        number = self._journal.begin("renew", conversation_id, **_held(token))
        return await self._recorded(number, super().renew(conversation_id, token, lease_ms=lease_ms), _nothing)

    async def release(self, conversation_id: str, token: Token, **what: Any) -> None:
        number = self._journal.begin("release", conversation_id, **_held(token))
        await self._recorded(number, super().release(conversation_id, token, **what), _nothing)

    async def commit(
        self,
        conversation_id: str,
        token: Token,
        request_id: str,
        *,
        answered: int = 0,
        events: Iterable[NewEvent] = (),
        **what: Any,
    ) -> Committed:
        tag = self._tag(token, request_id, answered)
        tagged = _tagged(events, tag)
        number = self._journal.begin(
            "commit", conversation_id, request_id, **_held(token), answered=answered, events=len(tagged)
        )
        work = super().commit(conversation_id, token, request_id, answered=answered, events=tagged, **what)

        def answer(done: Committed) -> dict[str, Any]:
            if token.fence in self._saw:  # a worker's; people answer what is there
                self._saw[token.fence] = _seqs(done.pending)
            return {"outcome": "dup" if done.duplicate else "ok", "ids": list(done.event_ids), "seq": done.seq}

        return await self._recorded(number, work, answer)

    async def transfer(
        self,
        conversation_id: str,
        token: Token,
        request_id: str,
        *,
        to: Owner,
        change: Mapping[str, Any],
        answered: int = 0,
        before: Iterable[NewEvent] = (),
        after: Iterable[NewEvent] = (),
        **what: Any,
    ) -> Transferred:
        tag = self._tag(token, request_id, answered)
        earlier, later = list(before), list(after)
        number = self._journal.begin(
            *("transfer", conversation_id, request_id),
            **_held(token),
            to=to.ref,
            go_on=bool(what.get("go_on")),
            answered=answered,
            events=len(earlier) + 1 + len(later),
        )
        work = super().transfer(
            *(conversation_id, token, request_id),
            to=to,
            change={**change, TAG: tag},
            answered=answered,
            before=earlier,
            after=later,
            **what,
        )

        def answer(done: Transferred) -> dict[str, Any]:
            self._saw[done.token.fence] = _seqs(done.pending)
            outcome = "dup" if done.duplicate else "ok"
            return {"outcome": outcome, "ids": list(done.event_ids), "seq": done.seq, **_held(done.token)}

        return await self._recorded(number, work, answer)

    async def takeover(self, conversation_id: str, person_id: str, *, change: Mapping[str, Any], **what: Any) -> Taken:
        request = f"take:{new_fence()}"
        asked = {
            "person": person_id,
            "force": bool(what.get("force")),
            "expected": what.get("expected_epoch"),
            "records": bool(what.get("handing")),
        }
        number = self._journal.begin("takeover", conversation_id, request, **asked)
        work = super().takeover(conversation_id, person_id, change={**change, TAG: {"rid": request}}, **what)

        def answer(taken: Taken) -> dict[str, Any]:
            # behind `owner.changed` comes the record `handoff.completed`, unless the person had it already
            recorded = bool(what.get("handing")) and taken.previous != Owner.human(person_id)
            ids = [f"{taken.token.epoch}-{taken.seq - recorded}"]
            return {"ids": ids, "seq": taken.seq, "previous": taken.previous.ref, **_held(taken.token)}

        return await self._recorded(number, work, answer)

    async def relay(
        self, conversation_id: str, token: Token, what: Ephemeral, *, message_id: str = "", piece: str = ""
    ) -> None:
        number = self._journal.begin("relay", conversation_id, **_held(token), message=message_id)
        work = super().relay(conversation_id, token, what, message_id=message_id, piece=piece)
        await self._recorded(number, work, _nothing)

    async def attend(self, conversation_id: str, **what: Any) -> Attention:
        number = self._journal.begin("attend", conversation_id, records=True)  # as the router's rescues write them

        def answer(found: Attention) -> dict[str, Any]:
            return {"outcome": found.what.value, "why": found.why}

        return await self._recorded(number, super().attend(conversation_id, **what), answer)

    async def get(self, conversation_id: str) -> Conversation:
        number = self._journal.begin("get", conversation_id)
        return await self._recorded(number, super().get(conversation_id), _snapshot)

    # -- pieces ----------------------------------------------------------------------------------------------------

    def _granted(self, grant: Grant | None) -> dict[str, Any]:
        if grant is None:
            return {}
        self._saw[grant.token.fence] = _seqs(grant.pending)
        record = grant.conversation
        return {**_held(grant.token), "owner": record.owner.ref, "seq": record.seq}

    def _tag(self, token: Token, request_id: str, answered: int) -> dict[str, Any]:
        saw = self._saw.get(token.fence)
        tag: dict[str, Any] = {"rid": request_id, "e": token.epoch, "n": answered}
        return tag if saw is None else {**tag, "saw": list(saw[:answered])}


def _tagged(events: Iterable[NewEvent], tag: Mapping[str, Any]) -> list[NewEvent]:
    out = list(events)
    if out:
        out[0] = replace(out[0], data={**out[0].data, TAG: tag})
    return out


def _held(token: Token) -> dict[str, Any]:
    return {"epoch": token.epoch, "fence": token.fence}


def _seqs(pending: Iterable[Pending]) -> tuple[int, ...]:
    return tuple(message.seq for message in pending)


def _nothing(_: object) -> dict[str, Any]:
    return {}


def _snapshot(record: Conversation) -> dict[str, Any]:
    return {"owner": record.owner.ref, "epoch": record.epoch, "seq": record.seq}


def _refusal(error: Exception) -> tuple[str, dict[str, Any]]:
    """The outcome and facts of an error: only a lost reply leaves the outcome unknown."""
    match error:
        case StoreUnavailable():
            return UNKNOWN, {"error": str(error)[:200]}
        case StoreRefused():
            return "refused", {"error": str(error)[:200]}
        case StaleOwner():
            return "stale", {"owner": error.owner, "epoch": error.epoch}
        case NotClaimable():
            return error.why, {"owner": error.owner}
        case OwnerBusy():
            return "busy", {"owner": error.owner, "epoch": error.epoch}
        case Conflict():
            return "conflict", {"field": error.field, "current": error.current}
        case _:
            return type(error).__name__, {}
