"""Everything that can go wrong in Frontdesk's store.

FrontdeskError                  the root of every error that Frontdesk raises on purpose
  StoreError                    something about the store
    StoreUnavailable            Redis did not answer; the outcome of the call is unknown
    StoreRefused                Redis answered, and refuses to write (full, read-only, loading)
    StoreMisconfigured          REDIS_URL or the server's settings cannot be used
      EmbeddedServerFailed      the embedded Valkey did not start
    StaleOwner                  the token is not the one Redis holds: somebody else owns the conversation now
    Conflict                    a compare-and-set failed: a value, the epoch or the log moved on
    InvalidId                   an id that cannot be part of a key
    UnknownConversation         no conversation with this id
    ConversationClosed          the conversation was closed
      ConversationForgotten     the customer's data was deleted
    MessageIdReused             the same message id came again with another text
    OwnerBusy                   another live person holds the conversation
    NotClaimable                there is nothing to do for a worker: busy, idle, or not owned by an AI agent
    OfferPending                another offer waits for an answer already
    OfferGone                   the offer was answered, ran out or was voided by a change of owner
    NotOffered                  the conversation was offered to another person
    UnknownApproval             no approval with this id
    ApprovalVoid                the agent that asked is not the owner any more (or again, without re-binding)
    ApprovalUsed                the approval was used for a call already
    CallUnfinished              an earlier attempt began this tool call, and nobody knows whether it happened
"""

from __future__ import annotations


class FrontdeskError(Exception):
    """The root of every error that Frontdesk raises on purpose."""


class StoreError(FrontdeskError):
    """Something about the store; `conversation_id` is set when one conversation is concerned."""

    def __init__(self, message: str, *, conversation_id: str | None = None) -> None:
        super().__init__(message)
        self.conversation_id = conversation_id


class StoreUnavailable(StoreError):
    """Redis did not answer in time. The call may or may not have taken effect: repeat it with the same request id."""


class StoreRefused(StoreError):
    """Redis answered and refuses to write (OOM, READONLY, LOADING, NOREPLICAS ...). Nothing was written."""


class StoreMisconfigured(StoreError):
    """REDIS_URL or the server's own settings cannot be used; the message says what to change."""


class EmbeddedServerFailed(StoreMisconfigured):
    """The embedded Valkey did not start; the message carries the end of its log."""


class StaleOwner(StoreError):
    """The token is not the one that Redis holds. `owner` (for example `human:ann`) and `epoch` are what it holds."""

    def __init__(self, conversation_id: str, *, owner: str, epoch: int) -> None:
        super().__init__(
            f"conversation {conversation_id}: the token is stale; {owner or 'nobody'} owns it now, epoch {epoch}",
            conversation_id=conversation_id,
        )
        self.owner = owner
        self.epoch = epoch


class Conflict(StoreError):
    """A compare-and-set failed and nothing was written. `field` names what moved on, `current` what it is now."""

    def __init__(self, conversation_id: str, *, field: str, current: str) -> None:
        super().__init__(
            f"conversation {conversation_id}: {field} has moved on (now {current!r}); read again and repeat",
            conversation_id=conversation_id,
        )
        self.field = field
        self.current = current


class InvalidId(StoreError):
    """An id that cannot be part of a key. `field` names it, `value` is what came."""

    def __init__(self, field: str, value: str) -> None:
        super().__init__(
            f"{field}: {value[:64]!r} is not allowed; at most 128 letters, digits and _ . : - are, "
            "the first one a letter or a digit"
        )
        self.field = field
        self.value = value


class UnknownConversation(StoreError):
    """No conversation with this id."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"there is no conversation {conversation_id!r}", conversation_id=conversation_id)


class ConversationClosed(StoreError):
    """The conversation was closed; a new one is needed."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"conversation {conversation_id} is closed", conversation_id=conversation_id)


class ConversationForgotten(ConversationClosed):
    """The customer's data was deleted; nothing can be written under this id again."""


class MessageIdReused(StoreError):
    """The same message id came again with another text; the first one stands."""

    def __init__(self, conversation_id: str, message_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id}: message id {message_id!r} was already used for another text",
            conversation_id=conversation_id,
        )
        self.message_id = message_id


class OwnerBusy(StoreError):
    """Another live person holds the conversation; take it by force or ask them. `owner` and `epoch` say who."""

    def __init__(self, conversation_id: str, *, owner: str, epoch: int) -> None:
        super().__init__(f"conversation {conversation_id} is held by {owner}", conversation_id=conversation_id)
        self.owner = owner
        self.epoch = epoch


class NotClaimable(StoreError):
    """Nothing to do for a worker. `why` is `busy`, `idle` or `not_ai`; `retry_ms` is set when busy."""

    def __init__(self, conversation_id: str, *, why: str, owner: str = "", retry_ms: int = 0) -> None:
        super().__init__(
            f"conversation {conversation_id} cannot be claimed: {why} {owner}".rstrip(), conversation_id=conversation_id
        )
        self.why = why
        self.owner = owner
        self.retry_ms = retry_ms


class OfferPending(StoreError):
    """One offer at a time. `offer_id` is the one that waits for an answer."""

    def __init__(self, conversation_id: str, offer_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id}: offer {offer_id} is still pending", conversation_id=conversation_id
        )
        self.offer_id = offer_id


class OfferGone(StoreError):
    """Nobody can answer the offer any more. `state` is accepted, declined, cancelled, expired, void or unknown.

    `by` says who answered it, or for a void one who owns now.
    """

    def __init__(self, conversation_id: str, offer_id: str, *, state: str, by: str = "") -> None:
        super().__init__(
            f"conversation {conversation_id}: offer {offer_id} is {state} {by}".rstrip(),
            conversation_id=conversation_id,
        )
        self.offer_id = offer_id
        self.state = state
        self.by = by


class NotOffered(StoreError):
    """The conversation was offered to `to`, a person, and somebody else accepted."""

    def __init__(self, conversation_id: str, offer_id: str, *, to: str) -> None:
        super().__init__(
            f"conversation {conversation_id}: offer {offer_id} is for {to}", conversation_id=conversation_id
        )
        self.offer_id = offer_id
        self.to = to


class UnknownApproval(StoreError):
    """No approval with this id in this conversation."""

    def __init__(self, conversation_id: str, approval_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id} has no approval {approval_id!r}", conversation_id=conversation_id
        )
        self.approval_id = approval_id


class ApprovalVoid(StoreError):
    """The owner changed since the agent asked. `owner` is who owns now; the agent may ask again with `rebind`."""

    def __init__(self, conversation_id: str, approval_id: str, *, owner: str) -> None:
        super().__init__(
            f"conversation {conversation_id}: approval {approval_id} is void, {owner} owns the conversation now",
            conversation_id=conversation_id,
        )
        self.approval_id = approval_id
        self.owner = owner


class ApprovalUsed(StoreError):
    """The approval was used already; `use` names the call."""

    def __init__(self, conversation_id: str, approval_id: str, *, use: str) -> None:
        super().__init__(
            f"conversation {conversation_id}: approval {approval_id} was used for {use}",
            conversation_id=conversation_id,
        )
        self.approval_id = approval_id
        self.use = use


class CallUnfinished(StoreError):
    """A tool call was begun in `epoch` and never finished: it may have happened. A tool that may run twice runs on."""

    def __init__(self, conversation_id: str, call_key: str, *, epoch: int) -> None:
        super().__init__(
            f"conversation {conversation_id}: tool call {call_key} was begun in epoch {epoch} and never finished",
            conversation_id=conversation_id,
        )
        self.call_key = call_key
        self.epoch = epoch
