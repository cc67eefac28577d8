"""Offers: a change of owner in two steps. The owner offers, a person accepts in time; until then the owner stays.

At most one offer is pending (I7). Any other change of owner voids it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sessions.base import PRESENCE_MS, REQUEST_TTL_S, Arguments, StoreBase, checked_wait, handed, new_fence
from sessions.cancellation import shielded
from sessions.errors import NotOffered, OfferGone, OfferPending
from sessions.keys import Keys, checked_id
from sessions.model import Offer, Owner, OwnerKind, Taken, Token
from sessions.scripts import compact


def _key(keys: Keys, offer_id: str) -> str:
    return keys.idempotency(f"offer:{checked_id('offer_id', offer_id)}")


class Offers(StoreBase):
    """offer, accept, decline, cancel; `attend` ends those whose time is over."""

    async def offer(
        self,
        conversation_id: str,
        token: Token,
        offer_id: str,
        *,
        to: Owner,
        valid_ms: int,
        brief: Mapping[str, Any] | None = None,
    ) -> int:
        """Offer the conversation to a human queue or person; the deadline in ms of Redis' clock.

        The holder goes on as the owner. The same `offer_id` again gets the first deadline.
        Raises StaleOwner, OfferPending (one at a time), OfferGone (the same id, answered meanwhile), ValueError.
        """
        if to.kind not in (OwnerKind.QUEUE, OwnerKind.HUMAN):
            raise ValueError(f"to: {to.ref} cannot be asked; offer to a queue or a person, transfer to an agent")
        keys = Keys.of(conversation_id)
        wait = checked_wait("valid_ms", valid_ms)
        details = {"offer": offer_id, "to": to.ref, "brief": dict(brief or {}), "valid_ms": wait}
        reply = await shielded(
            self._call(
                "offer",
                keys,
                [
                    *(token.epoch, token.fence, offer_id, to.ref, wait, compact(brief or {}), compact(details)),
                    REQUEST_TTL_S,
                ],
                more=[_key(keys, offer_id)],
            )
        )
        if reply[0] == "PENDING":
            raise OfferPending(conversation_id, reply[1])
        if reply[1] != "pending":
            raise OfferGone(conversation_id, offer_id, state=reply[1])
        return int(reply[3])

    async def pending_offer(self, conversation_id: str) -> Offer | None:
        """The offer that waits for an answer; None when there is none."""
        fields = await self._read(self._redis.hgetall(Keys.of(conversation_id).offer))
        if not fields:
            return None
        return Offer(
            offer_id=fields["id"],
            offered_by=Owner.parse(fields["from"]),
            to=Owner.parse(fields["to"]),
            deadline=int(fields["deadline"]),
            brief=json.loads(fields["brief"]),
        )

    async def accept(
        self,
        conversation_id: str,
        offer_id: str,
        person_id: str,
        *,
        change: Mapping[str, Any],
        handing: Mapping[str, Any] | None = None,
        fence: str = "",
        presence_ms: int = PRESENCE_MS,
    ) -> Taken:
        """The person becomes the owner. `change` is the data of `owner.changed`; `fence` repeats a call that was lost.

        `handing` is the data of the records of the handoff, without `from`; without it there are none.

        Raises OfferGone (too late, answered or void: nothing changed), NotOffered, ConversationClosed.
        """
        keys = Keys.of(conversation_id)
        fence = fence or new_fence()
        args: Arguments = [
            offer_id,
            checked_id("person_id", person_id),
            fence,
            presence_ms,
            compact(change),
            REQUEST_TTL_S,
            handed(handing),
        ]
        reply = await shielded(self._call("accept", keys, args, more=[_key(keys, offer_id)]))
        self._raise_gone(conversation_id, offer_id, reply)
        return Taken(Token(int(reply[1]), fence), Owner.parse(reply[2]), int(reply[3]))

    async def decline(self, conversation_id: str, offer_id: str, by: str, *, reason: str = "") -> int:
        """Somebody who was asked does not take it; the owner stays. The event's seq, the same one when the same
        person declines again. Raises OfferGone.

        `by` is an owner ref (`human:ann`). That the asked one declines is for the caller to know.
        """
        keys = Keys.of(conversation_id)
        data = compact({"offer": offer_id, "reason": reason})
        reply = await shielded(
            self._call("decline", keys, [offer_id, by, data, REQUEST_TTL_S], more=[_key(keys, offer_id)])
        )
        self._raise_gone(conversation_id, offer_id, reply)
        return int(reply[1])

    async def cancel(self, conversation_id: str, token: Token, offer_id: str) -> int:
        """The owner takes its offer back; the event's seq, the same one when repeated. Raises StaleOwner, OfferGone."""
        keys = Keys.of(conversation_id)
        args: Arguments = [token.epoch, token.fence, offer_id, compact({"offer": offer_id}), REQUEST_TTL_S]
        reply = await shielded(self._call("cancel", keys, args, more=[_key(keys, offer_id)]))
        self._raise_gone(conversation_id, offer_id, reply)
        return int(reply[1])

    def _raise_gone(self, conversation_id: str, offer_id: str, reply: list[Any]) -> None:
        if reply[0] == "GONE":
            raise OfferGone(conversation_id, offer_id, state=reply[1], by=reply[2])
        if reply[0] == "NOTYOURS":
            raise NotOffered(conversation_id, offer_id, to=reply[1])
