"""The Lua scripts: loading, calling, repeating after a lost reply, and turning refusals into errors.

Each script is idempotent by a request id or a fence, so a call whose reply was lost is simply made again.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import chain, cycle
from typing import Any, cast

from sessions.cancellation import obedient
from sessions.errors import (
    Conflict,
    ConversationClosed,
    ConversationForgotten,
    StaleOwner,
    UnknownConversation,
)
from sessions.failures import FAILURES, passes, store_error

SCRIPTS = (
    *("enqueue", "claim", "renew", "append", "commit", "transfer", "takeover", "release", "relay"),
    *("offer", "accept", "decline", "cancel", "expire", "close", "forget", "set_values", "cursor", "resume", "watch"),
    *("approval_ask", "approval_decide", "approval_consume", "journal_begin", "journal_finish"),
    *("customer_set", "customer_forget", "lead"),
)
PAUSES_S = (0.05, 0.2, 0.5, 1.0)  # before each repetition, the last one for all others
USUALLY_S = 2.0  # how long a call is repeated; a restart of Valkey takes 0.3 s, and somebody waits for the answer
DOUBT_S = 0.9  # below what Sentinels (1 s at least) and cluster nodes wait before they replace a silent master
PATIENCE_S = {"commit": 8.0, "transfer": 8.0}  # a whole turn of a model would be lost; a failover takes 2 to 6 s


def source(name: str) -> str:
    """The text of one script, with the shared functions in front."""
    folder = files("sessions") / "lua"
    return (folder / "lib.lua").read_text("utf-8") + (folder / f"{name}.lua").read_text("utf-8")


# JSON without spaces, in UTF-8: what is stored. One encoder for all: json.dumps would make one at each call.
compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def groups(*tables: Iterable[Sequence[str]]) -> list[str]:
    """Arguments as lua/lib.lua's `group` reads them: for each table the number of rows, then the rows."""
    out: list[str] = []
    for table in tables:
        rows = list(table)
        out.append(str(len(rows)))
        for row in rows:
            out.extend(row)
    return out


class Scripts:
    """Calls the scripts on one backend's command client.

    Where another server can become master (`confirm` is given), a master that was silent is not simply believed: it may
    have been frozen, replaced and woken, and for a moment it takes writes that will be thrown away. So `confirm` finds
    out who is master before a call that follows a silence, and a call whose answer took long is made again.

    `sources` replaces the text of some of them: the tests of the tests break one rule at a time that way.
    """

    def __init__(
        self,
        client: Any,
        sources: Mapping[str, str] | None = None,
        *,
        confirm: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        texts = {name: source(name) for name in SCRIPTS} | dict(sources or {})
        self._scripts = {name: client.register_script(text) for name, text in texts.items()}
        self._confirm = confirm
        self._confirming = asyncio.Lock()
        self._sure = 0.0  # until when it is known that who answers is the master, by the monotonic clock

    async def call(
        self, name: str, keys: Sequence[str], args: Sequence[str | int], *, repeat: bool = True
    ) -> list[Any]:
        """The script's reply. StoreUnavailable: no reply came, the outcome is unknown. StoreRefused: Redis said no."""
        give_up = time.monotonic() + (PATIENCE_S.get(name, USUALLY_S) if repeat else 0)
        for pause in chain(PAUSES_S, cycle(PAUSES_S[-1:])):
            try:
                return await self._ask(name, keys, args, repeat)
            except FAILURES as error:
                if not passes(error) or time.monotonic() + pause > give_up:
                    raise store_error(name, error) from error
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: the pauses do not end")

    async def _ask(self, name: str, keys: Sequence[str], args: Sequence[str | int], repeat: bool) -> list[Any]:
        await self._be_sure(time.monotonic() - DOUBT_S)
        asked = time.monotonic()
        reply = await obedient(self._scripts[name](keys=list(keys), args=list(args)))
        answered = time.monotonic()
        if self._confirm is not None and answered - asked > DOUBT_S:
            await self._be_sure(answered)
            if not repeat:
                raise TimeoutError(f"the answer took {answered - asked:.1f} s")
            reply = await obedient(self._scripts[name](keys=list(keys), args=list(args)))
        self._sure = time.monotonic()
        return cast("list[Any]", reply)

    async def _be_sure(self, since: float) -> None:
        """Confirm who is master, unless somebody was sure of it since then."""
        if self._confirm is None or self._sure >= since:
            return
        async with self._confirming:
            if self._sure < since:
                await obedient(self._confirm())
                self._sure = time.monotonic()


def check(conversation_id: str, reply: list[Any]) -> str:
    """The reply's tag when it is not a refusal that every script can give; the matching error otherwise."""
    tag = str(reply[0])
    if tag == "FENCED":
        raise StaleOwner(conversation_id, owner=reply[1], epoch=int(reply[2]))
    if tag == "CONFLICT":
        raise Conflict(conversation_id, field=reply[1], current=str(reply[2]))
    if tag == "NOCONV":
        raise UnknownConversation(conversation_id)
    if tag == "CLOSED" and reply[1] == "forgotten":
        raise ConversationForgotten(conversation_id)
    if tag == "CLOSED":
        raise ConversationClosed(conversation_id)
    return tag
