"""What an error of Redis or of its client means for a caller of the store, and whether waiting helps. No I/O."""

from __future__ import annotations

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from sessions.errors import StoreRefused, StoreUnavailable

FAILURES = (RedisError, RedisClusterException, OSError)  # RedisClusterException is none of redis-py's RedisErrors

# redis-py has classes for some refusals and cuts the word off their text. The other words stand first, or (Redis 6.2,
# inside a script) after "Error running script ...".
# NoScriptError: redis-py loads a missing script by itself, but a failover can come between loading and calling.
PASSING_TYPES = (ClusterDownError, MasterDownError, NoScriptError, ReadOnlyError, TryAgainError)
LASTING_TYPES = (NoPermissionError, OutOfMemoryError)
PASSING = ("LOADING", "READONLY", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ")
LASTING = ("OOM", "MISCONF", "NOPERM", "NOAUTH", "UNKILLABLE")
OURS = ("same key slot", "Missing key", "Invalid args")  # a command of ours that no cluster can take


def store_error(what: str, error: Exception) -> Exception:
    """The error that `what` (a script or a read) raises for one of FAILURES; a defect of ours stays what it is.

    StoreUnavailable: no reply, so nobody knows whether it took effect. StoreRefused: Redis said no and wrote nothing.
    """
    text = str(error) or type(error).__name__
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return StoreRefused(f"Redis refuses the log-in ({what}): {text}")
    if isinstance(error, BusyLoadingError):
        return StoreRefused(f"Redis is still loading its data ({what}): try again shortly")
    if isinstance(error, (ConnectionError, TimeoutError, OSError)):
        return StoreUnavailable(f"Redis does not answer ({what}): {text}")
    if isinstance(error, ResponseError):
        return StoreRefused(f"Redis refuses ({what}): {text}") if _refuses(error, text) else error
    if any(words in text for words in OURS):
        return error
    return StoreUnavailable(f"Redis cannot be reached ({what}): {text}")


def passes(error: Exception) -> bool:
    """Whether the same call may succeed in a moment: a restart or a failover is under way."""
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return False
    if isinstance(error, ResponseError):
        return isinstance(error, PASSING_TYPES) or any(word in str(error) for word in PASSING)
    return not any(words in str(error) for words in OURS)


def _refuses(error: ResponseError, text: str) -> bool:
    if isinstance(error, (*PASSING_TYPES, *LASTING_TYPES)):
        return True
    return any(word in text for word in (*PASSING, *LASTING))
