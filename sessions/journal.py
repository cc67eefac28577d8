"""The tool journal: a call with side effects is written down before and after, so that a turn that runs again after a
crash takes the recorded result instead of making the call twice. A commit makes the calls history and clears it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from sessions import replies
from sessions.base import Arguments, StoreBase
from sessions.cancellation import shielded
from sessions.errors import CallUnfinished
from sessions.keys import Keys
from sessions.model import Json, Token
from sessions.scripts import compact


@dataclass(frozen=True, slots=True)
class Begun:
    """`run` True: make the call and `finish_call` it. False: it was made already, and `result` is what it gave."""

    run: bool
    result: Json = None


class Journal(StoreBase):
    """begin_call, finish_call. A call key names one call of one turn, the same whenever the turn runs again."""

    async def begin_call(self, conversation_id: str, token: Token, call_key: str, *, again: bool = False) -> Begun:
        """May this call run? Only the owner of this moment hears yes. Raises StaleOwner, CallUnfinished.

        CallUnfinished: an earlier attempt died in the middle. `again` runs it all the same, for a tool that may.
        """
        args: Arguments = [token.epoch, token.fence, call_key, int(again)]
        reply = await self._call("journal_begin", Keys.of(conversation_id), args)
        if reply[0] == "UNFINISHED":
            raise CallUnfinished(conversation_id, call_key, epoch=int(reply[1]))
        return Begun(False, json.loads(reply[1])) if reply[0] == "DONE" else Begun(True)

    async def finish_call(self, conversation_id: str, token: Token, call_key: str, result: Json) -> Json:
        """Keep the result; the first one stands and comes back. Raises StaleOwner, Conflict (the call is not begun)."""
        args: Arguments = [token.epoch, token.fence, call_key, compact(result)]
        reply = await shielded(self._call("journal_finish", Keys.of(conversation_id), args))
        return json.loads(reply[1])

    async def journal(self, conversation_id: str) -> tuple[dict[str, Json], tuple[str, ...]]:
        """Results of finished calls of the running (or broken) turn, and the keys of unfinished ones."""
        return replies.journal(await self._read(self._redis.hgetall(Keys.of(conversation_id).journal)))
