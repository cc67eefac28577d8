"""The Lua scripts: loading, calling, repeating after a lost reply, and turning refusals into errors.

Each script is idempotent by a request id or a fence, so a call whose reply was lost is simply made again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any, cast

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from sessions.cancellation import obedient
from sessions.errors import (
    Conflict,
    ConversationClosed,
    StaleOwner,
    StoreRefused,
    StoreUnavailable,
    UnknownConversation,
)

SCRIPTS = ("enqueue", "claim", "renew", "commit", "transfer", "takeover", "release", "relay")
PAUSES_S = (0.05, 0.2, 0.5, 1.0)  # before each repetition: a restart of Valkey takes 0.3 s, a failover 2 to 4 s
REFUSALS = ("OOM", "READONLY", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "LOADING", "NOPERM")


def source(name: str) -> str:
    """The text of one script, with the shared functions in front."""
    folder = files("sessions") / "lua"
    return (folder / "lib.lua").read_text("utf-8") + (folder / f"{name}.lua").read_text("utf-8")


def compact(value: object) -> str:
    """JSON without spaces, in UTF-8: what is stored."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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
    """Calls the scripts on one backend's command client."""

    def __init__(self, client: Any) -> None:
        self._scripts = {name: client.register_script(source(name)) for name in SCRIPTS}

    async def call(
        self, name: str, keys: Sequence[str], args: Sequence[str | int], *, repeat: bool = True
    ) -> list[Any]:
        """The script's reply. StoreUnavailable: no reply came, the outcome is unknown. StoreRefused: Redis said no."""
        pauses = PAUSES_S if repeat else ()
        for pause in (*pauses, None):
            try:
                return cast("list[Any]", await obedient(self._scripts[name](keys=list(keys), args=list(args))))
            except AuthenticationError as error:
                raise StoreRefused(f"Redis refuses the log-in: {error}") from error
            except BusyLoadingError as error:
                if pause is None:
                    raise StoreRefused("Redis is still loading its data; try again shortly") from error
            except (ConnectionError, TimeoutError, OSError) as error:
                if pause is None:
                    raise StoreUnavailable(f"Redis does not answer ({name}): {error}") from error
            except ResponseError as error:
                raise refusal(name, error) from error
            except RedisError as error:
                raise StoreUnavailable(f"Redis failed ({name}): {error}") from error
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: the last pause is None")


def refusal(name: str, error: ResponseError) -> Exception:
    """What an error reply means: Redis' own refusal to write, or a defect of ours (passed on as it is)."""
    text = str(error)
    if type(error).__name__ in {"OutOfMemoryError", "ReadOnlyError", "NoPermissionError"} or any(
        word in text for word in REFUSALS
    ):
        return StoreRefused(f"Redis refuses to write ({name}): {text}")
    return error


def check(conversation_id: str, reply: list[Any]) -> str:
    """The reply's tag when it is not a refusal that every script can give; the matching error otherwise."""
    tag = str(reply[0])
    if tag == "FENCED":
        raise StaleOwner(conversation_id, owner=reply[1], epoch=int(reply[2]))
    if tag == "CONFLICT":
        raise Conflict(conversation_id, field=reply[1], current=str(reply[2]))
    if tag == "NOCONV":
        raise UnknownConversation(conversation_id)
    if tag == "CLOSED":
        raise ConversationClosed(conversation_id)
    return tag
