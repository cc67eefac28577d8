"""Visitor tokens: who a visitor is cannot be forged, bent or kept for ever."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import jwt
import pytest

from app.identity import ACCESS_S, LEEWAY_S, REFRESH_S, Identity, IdentityError, TokenExpired, same_secret

SECRET = "a secret of this test"


class Clock:
    """Unix time that the test moves."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def identity(clock: Clock | None = None) -> Identity:
    return Identity(SECRET, clock=clock or Clock())


def test_a_token_names_its_visitor_and_conversation() -> None:
    """What was issued is what is verified."""
    session = identity().start("demo")
    visitor = identity().verify(session.token)
    assert visitor.visitor_id == session.visitor_id
    assert visitor.conversation_id == session.conversation_id
    assert visitor.site == "demo"


def test_two_visitors_share_nothing() -> None:
    """Ids are random; two starts give two conversations."""
    one, two = identity().start("demo"), identity().start("demo")
    assert one.visitor_id != two.visitor_id
    assert one.conversation_id != two.conversation_id


def test_a_token_runs_out_after_fifteen_minutes() -> None:
    """A stolen token is worth a quarter of an hour."""
    clock = Clock()
    session = identity(clock).start("demo")
    clock.now += ACCESS_S + LEEWAY_S + 1
    with pytest.raises(TokenExpired):
        identity(clock).verify(session.token)


def test_a_refresh_gives_the_same_conversation() -> None:
    """A visitor who comes back goes on where they were, also after the token ran out."""
    clock = Clock()
    first = identity(clock).start("demo")
    clock.now += ACCESS_S * 10
    again = identity(clock).renew(first.refresh, "demo")
    assert (again.visitor_id, again.conversation_id) == (first.visitor_id, first.conversation_id)
    assert identity(clock).verify(again.token).conversation_id == first.conversation_id


def test_new_begins_another_conversation_of_the_same_visitor() -> None:
    """Starting over keeps who the visitor is."""
    first = identity().start("demo")
    second = identity().renew(first.refresh, "demo", new_conversation=True)
    assert second.visitor_id == first.visitor_id
    assert second.conversation_id != first.conversation_id


def test_a_refresh_runs_out_after_thirty_days() -> None:
    """An old browser profile does not open an old conversation."""
    clock = Clock()
    session = identity(clock).start("demo")
    clock.now += REFRESH_S + LEEWAY_S + 1
    with pytest.raises(TokenExpired):
        identity(clock).renew(session.refresh, "demo")


def test_the_two_tokens_cannot_stand_in_for_each_other() -> None:
    """An access token buys no new ones, and a refresh token opens no socket."""
    session = identity().start("demo")
    with pytest.raises(IdentityError):
        identity().verify(session.refresh)
    with pytest.raises(IdentityError):
        identity().renew(session.token, "demo")


def test_a_refresh_is_bound_to_its_site() -> None:
    """A token of one website is refused by another."""
    session = identity().start("demo")
    with pytest.raises(IdentityError):
        identity().renew(session.refresh, "other")


def test_another_secret_is_refused() -> None:
    """Only this desk's secret signs."""
    session = Identity("another secret").start("demo")
    with pytest.raises(IdentityError):
        identity().verify(session.token)


def forged(claims: dict[str, Any], header: dict[str, str]) -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part(header)}.{part(claims)}."


@pytest.mark.parametrize("algorithm", ["none", "None", "HS512", "RS256"])
def test_the_algorithm_is_not_the_tokens_to_choose(algorithm: str) -> None:
    """`alg: none` and its relatives prove nothing."""
    claims = jwt.decode(identity().start("demo").token, options={"verify_signature": False})
    with pytest.raises(IdentityError):
        identity().verify(forged(claims, {"alg": algorithm, "typ": "JWT"}))


def test_changed_claims_break_the_signature() -> None:
    """Another conversation cannot be written into a good token."""
    token = identity().start("demo").token
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    claims["conv"] = "c_somebody_else"
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    with pytest.raises(IdentityError):
        identity().verify(f"{head}.{changed}.{signature}")


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "....", "é.é.é", "x" * 5000, "eyJhbGciOiJIUzI1NiJ9.e30.AAAA"])
def test_garbage_is_refused(token: str) -> None:
    """Whatever is sent as a token gives an IdentityError and nothing else."""
    with pytest.raises(IdentityError):
        identity().verify(token)


def test_secrets_are_compared_whole() -> None:
    """Equal is equal; prefixes and other texts are not."""
    assert same_secret("schlüssel", "schlüssel")
    assert not same_secret("schl", "schlüssel")
    assert not same_secret("", "x")
