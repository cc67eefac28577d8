"""Who a visitor is: short-lived signed tokens (JWT, HS256) that name one visitor and one conversation.

The access token goes into the first frame of a socket. The refresh token only buys new access tokens; its audience is
another one, so neither can be used for the other. Both are stateless: what they say was signed by this desk.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import jwt

ISSUER: Final = "frontdesk"
ACCESS_S: Final = 15 * 60  # a stolen access token is worth this long
REFRESH_S: Final = 30 * 24 * 3600  # a visitor who comes back within a month finds the conversation again
LEEWAY_S: Final = 5  # two servers' clocks
Use = Literal["widget", "refresh"]


class IdentityError(Exception):
    """A token that proves nothing: forged, damaged, or made for something else."""


class TokenExpired(IdentityError):
    """The token was good once; fetch a new one."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """What a verified token says. `expires_at` is Unix time in seconds."""

    visitor_id: str
    conversation_id: str
    site: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Session:
    """A pair of tokens for one visitor and conversation."""

    visitor_id: str
    conversation_id: str
    token: str
    refresh: str
    expires_in: int = ACCESS_S


def new_id(prefix: str) -> str:
    """A random id such as `c_k3v...` (128 bits, lower-case base32)."""
    return f"{prefix}_{base64.b32encode(secrets.token_bytes(16)).decode().rstrip('=').lower()}"


def same_secret(given: str, expected: str) -> bool:
    """Compare two secrets in a time that does not depend on where they differ, nor on their lengths."""
    return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), hashlib.sha256(expected.encode()).digest())


class Identity:
    """Issues and verifies visitor tokens with one secret that all processes share."""

    def __init__(self, secret: str, *, clock: Callable[[], float] = time.time) -> None:
        # A key of fixed length, whatever the operator typed; and one that is used for nothing but these tokens.
        self._key = hmac.digest(secret.encode(), b"frontdesk visitor tokens v1", "sha256")
        self._clock = clock

    def start(self, site: str, visitor_id: str | None = None) -> Session:
        """A new conversation, for a new visitor unless one is given."""
        return self._session(site, visitor_id or new_id("v"), new_id("c"))

    def renew(self, refresh: str, site: str, *, new_conversation: bool = False) -> Session:
        """New tokens for the visitor of a refresh token; IdentityError when it is not good for this site."""
        visitor = self._decode(refresh, "refresh")
        if visitor.site != site:
            raise IdentityError("this refresh token was made for another site")
        if new_conversation:
            return self.start(site, visitor.visitor_id)
        return self._session(site, visitor.visitor_id, visitor.conversation_id)

    def verify(self, token: str) -> Visitor:
        """The visitor that an access token names; TokenExpired or IdentityError otherwise."""
        return self._decode(token, "widget")

    def _session(self, site: str, visitor_id: str, conversation_id: str) -> Session:
        token = self._encode("widget", site, visitor_id, conversation_id, ACCESS_S)
        refresh = self._encode("refresh", site, visitor_id, conversation_id, REFRESH_S)
        return Session(visitor_id, conversation_id, token, refresh)

    def _encode(self, use: Use, site: str, visitor_id: str, conversation_id: str, seconds: int) -> str:
        now = int(self._clock())
        claims = {
            "iss": ISSUER,
            "aud": f"{ISSUER}:{use}",
            "sub": visitor_id,
            "conv": conversation_id,
            "site": site,
            "iat": now,
            "exp": now + seconds,
        }
        return jwt.encode(claims, self._key, algorithm="HS256")

    def _decode(self, token: str, use: Use) -> Visitor:
        claims = self._verified_claims(token, use)
        if claims["exp"] + LEEWAY_S <= self._clock():
            raise TokenExpired("the token has expired")
        return Visitor(claims["sub"], claims["conv"], claims["site"], claims["exp"])

    def _verified_claims(self, token: str, use: Use) -> dict[str, Any]:
        try:
            claims = jwt.decode(
                token,
                self._key,
                algorithms=["HS256"],
                audience=f"{ISSUER}:{use}",
                issuer=ISSUER,
                # Expiry is checked by _decode with our own clock, so that tests need not wait and tell it apart.
                options={
                    "require": ["sub", "conv", "site", "exp", "iat", "aud", "iss"],
                    "strict_aud": True,
                    "verify_exp": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, UnicodeError) as error:
            raise IdentityError(f"the token is not valid: {error}") from None
        if not isinstance(claims["exp"], int) or not all(isinstance(claims[name], str) for name in ("conv", "site")):
            raise IdentityError("the token is not valid: a claim has the wrong type")
        return claims
