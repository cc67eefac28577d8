"""What a Redis URL may be, and how a server is judged by what it says of itself. No server runs here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sessions.errors import StoreMisconfigured
from sessions.redis_url import masked, parse_redis_url
from sessions.server_checks import ServerFacts, check_server

SECRET = "s3cr3t-pässword"
SECRET_IN_URL = "s3cr3t-p%C3%A4ssword"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://x:pw-secret@h", "scheme http:// is not known"),
        ("localhost:6379", "it has no scheme"),
        ("user:pw-secret@localhost", "it has no scheme"),
        ("redis://", "the host is missing"),
        ("redis://:pw-secret@", "the host is missing"),
        ("redis://:6379", "a host is missing"),
        ("redis://h:0", "1 to 65535"),
        ("redis://h:99999", "1 to 65535"),
        ("redis://h:pw-secret/x", "1 to 65535"),
        ("redis://u:pw-secret/1@h", "percent-encoded"),
        ("redis://h/one", "number of a database"),
        ("redis://h1,h2", "redis\\+sentinel:// or redis\\+cluster://"),
        ("redis+sentinel://h1,h2", "name of the Sentinel service"),
        ("redis+sentinel://h1,,h2/m", "a host is missing"),
        ("redis+cluster://h/1", "only database 0"),
        ("redis+cluster://h?db=1", "only database 0"),
        ("unix://tmp/s", "must be absolute"),
        ("embedded://relative/dir", "must be absolute"),
        ("redis://h?ssl_ca_certs=/ca.pem", "needs the scheme rediss"),
        ("rediss://h?ssl_ca_cert=/ca.pem", "did you mean ssl_ca_certs"),
        ("redis://h?decode_responses=0", "set by Frontdesk itself"),
        ("redis://h?db=x&password=pw-secret", "cannot be read"),
    ],
)
def test_a_wrong_url_is_told_with_its_reason(url: str, why: str) -> None:
    """The error names REDIS_URL, what came without a password, why it is wrong and what is allowed."""
    with pytest.raises(StoreMisconfigured, match=f"^REDIS_URL is .*{why}.*Allowed are redis://host:6379/0") as failure:
        parse_redis_url(url)
    if "@" in url or "password" in url:
        assert "pw-secret" not in str(failure.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://desk:secret@h/0", "redis://desk:***@h/0"),
        ("redis://:secret@h", "redis://:***@h"),
        ("redis://secret@h", "redis://***@h"),
        ("redis://:sec/r@et#x@h", "redis://:***@h"),
        (
            "redis+sentinel://u:secret@a,b/m?sentinel_password=secret&db=1",
            "redis+sentinel://u:***@a,b/m?sentinel_password=***&db=1",
        ),
        ("unix:///s?password=a@secret", "unix:///s?password=***"),
        ("u:secret@h", "u:***@h"),
        ("", ""),
    ],
)
def test_a_masked_url_shows_no_secret(url: str, shown: str) -> None:
    """Whatever stands before an @ or in a password option is hidden, well-formed or not."""
    assert masked(url) == shown


def test_a_url_is_read_whole() -> None:
    """User, password, hosts with and without port, IPv6, service, database and typed options."""
    url = parse_redis_url("rediss+sentinel://u:p%40w@a:1,[::1]:2,c/main/4?ssl_check_hostname=no&sentinel_password=x")
    assert (url.kind, url.tls, url.service, url.db) == ("sentinel", True, "main", 4)
    assert url.hosts == (("a", 1), ("::1", 2), ("c", 26379))
    assert (url.username, url.password) == ("u", "p@w")
    assert url.options == {"ssl_check_hostname": False, "sentinel_password": "x"}
    assert url.secrets == ("p@w", "x")
    assert "p@w" not in repr(url)


@pytest.mark.parametrize(
    ("kind", "replicas", "least", "warning"),
    [
        ("standalone", 0, "0", ""),
        ("standalone", 1, "0", "min-replicas-to-write 0"),
        ("sentinel", 2, "0", "min-replicas-to-write 0"),
        ("sentinel", 2, "1", ""),
        ("cluster", 0, "0", "has no replica"),
        ("cluster", 1, "0", ""),
        ("cluster", 2, "0", "min-replicas-to-write 0"),
    ],
)
def test_replication_is_judged_by_what_a_failover_would_cost(
    kind: str, replicas: int, least: str, warning: str
) -> None:
    """A master that could go on alone is warned about; a cluster's only replica must not be required for writing."""
    info = {"redis_version": "7.0.15", "role": "master", "aof_enabled": 1, "connected_slaves": replicas}
    facts = ServerFacts(info, {"appendfsync": "always", "min-replicas-to-write": least})
    warnings = check_server(facts, kind=kind, shown="redis://h")
    assert [warning in said for said in warnings] == [True] * bool(warning)


def test_an_old_server_is_refused() -> None:
    """Redis before 6.2 lacks commands that the scripts use; a Valkey is judged by the Redis it is compatible with."""
    good = ServerFacts({"redis_version": "6.2.0", "role": "master", "maxmemory_policy": "noeviction"}, {})
    assert check_server(good, kind="standalone", shown="redis://h") == []
    old = replace(good, info={**good.info, "redis_version": "6.0.16"})
    with pytest.raises(StoreMisconfigured, match=r"Redis 6\.0\.16: too old, 6\.2"):
        check_server(old, kind="standalone", shown="redis://h")
