"""REDIS_URL: read, checked, and shown without its password. No I/O.

unset, "", "embedded", "embedded:///dir"       the embedded server
redis://user:pw@host:6379/0, rediss://...      one server, in the clear or over TLS
unix:///path/to/socket?db=0                    one server on this host
redis+sentinel://user:pw@h1:26379,h2/mymaster/0    Sentinel (rediss+sentinel:// for TLS)
redis+cluster://user:pw@h1:6379,h2:6379        Redis Cluster (rediss+cluster:// for TLS)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from redis.asyncio.connection import URL_QUERY_ARGUMENT_PARSERS

from sessions.errors import StoreMisconfigured

Kind = Literal["embedded", "standalone", "sentinel", "cluster"]

SCHEMES = (
    "embedded",
    "redis",
    "rediss",
    "unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
)
ALLOWED = (
    "Allowed are redis://host:6379/0, rediss://host:6379/0, unix:///path/to/socket, "
    "redis+sentinel://host:26379,host:26379/mymaster/0, redis+cluster://host:6379,host:6379 "
    "(rediss+sentinel://, rediss+cluster:// over TLS), embedded:///folder, or no REDIS_URL at all."
)
REDIS_PORT = 6379
SENTINEL_PORT = 26379
HIDDEN = "***"

# Query options, by redis-py's names. A name that is not listed is a typing error, never silently dropped.
TLS_FILES = frozenset(["ssl_ca_certs", "ssl_ca_data", "ssl_certfile", "ssl_keyfile"])
TLS_RULES = frozenset(["ssl_cert_reqs", "ssl_check_hostname", "ssl_min_version", "ssl_ciphers"])
TIMES = frozenset(["socket_timeout", "socket_connect_timeout", "socket_keepalive", "health_check_interval"])
OPTIONS = TIMES | {"client_name", "protocol", "max_connections"}
EXTRA: Mapping[str, frozenset[str]] = {
    "standalone": frozenset(["db", "username", "password", "ssl_ca_path", "ssl_password"]),
    "sentinel": frozenset(["db", "ssl_ca_path", "ssl_password", "sentinel_username", "sentinel_password"]),
    "cluster": frozenset(),
}
OURS = frozenset(["decode_responses", "retry", "retry_on_timeout", "retry_on_error", "timeout"])


@dataclass(frozen=True)
class RedisUrl:
    """What a REDIS_URL says. `options` are redis-py's connection arguments, already of their Python types.

    `folder` is set for embedded:///dir, `path` for unix://, `hosts` for all others, `service` for Sentinel.
    """

    kind: Kind
    shown: str
    tls: bool = False
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    folder: Path | None = None
    service: str = ""
    db: int = 0
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not appear in any text."""
        hidden = [self.password, *(str(value) for name, value in self.options.items() if "password" in name)]
        return tuple(text for text in hidden if text)


def masked(url: str) -> str:
    """The URL for human eyes: no password, also not when the URL is malformed. The user name stays when it is plain."""
    shown = re.sub(r"(?i)([?&;][^=&;]*pass[^=&;]*=)[^&;]*", rf"\1{HIDDEN}", url)
    match = re.fullmatch(r"((?:[A-Za-z0-9+.-]*:/{1,2})?)(.*)@(.*)", shown, flags=re.DOTALL)
    if match is None:
        return shown
    scheme, credentials, rest = match.groups()
    user, colon, _ = credentials.partition(":")
    if colon and re.fullmatch(r"[\w.-]*", user):
        return f"{scheme}{user}:{HIDDEN}@{rest}"
    return f"{scheme}{HIDDEN}@{rest}"  # a lone word before "@" is often a password put in the wrong place


def parse_redis_url(url: str | None) -> RedisUrl:
    """What `url` means. Raises StoreMisconfigured that says what came (masked), why not, and what is allowed."""
    text = (url or "").strip()
    if text in ("", "embedded"):
        return RedisUrl("embedded", "embedded")
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator:
        raise _wrong(text, "it has no scheme")
    if scheme not in SCHEMES:
        raise _wrong(text, f"the scheme {_plain(scheme)} is not known")
    body, _, query = rest.partition("?")
    if scheme == "embedded":
        return _embedded(text, body)
    return _remote(text, scheme, body, query)


def _plain(scheme: str) -> str:
    """A scheme that is fit to be shown: what stands there may be anything, even a password."""
    return f"{scheme}://" if re.fullmatch(r"[a-z][a-z0-9+.-]{0,20}", scheme) else "before ://"


def _wrong(text: str, why: str) -> StoreMisconfigured:
    return StoreMisconfigured(f"REDIS_URL is {masked(text)!r}: {why}. {ALLOWED}")


def _embedded(text: str, body: str) -> RedisUrl:
    folder = unquote(body)
    if not folder:
        return RedisUrl("embedded", "embedded")
    if not folder.startswith("/"):
        raise _wrong(text, "the folder must be absolute, with three slashes: embedded:///var/lib/frontdesk")
    return RedisUrl("embedded", masked(text), folder=Path(folder))


def _remote(text: str, scheme: str, body: str, query: str) -> RedisUrl:
    base, _, mode = scheme.partition("+")
    kind: Kind = "sentinel" if mode == "sentinel" else "cluster" if mode == "cluster" else "standalone"
    credentials, _, location = body.rpartition("@")
    options = _options(text, kind, query, tls=base == "rediss")
    user, _, password = credentials.partition(":")
    username = unquote(user) or options.pop("username", None)
    secret = unquote(password) or options.pop("password", None)
    url_db = options.pop("db", None)
    common: dict[str, Any] = {"tls": base == "rediss", "username": username, "password": secret, "options": options}
    if base == "unix":
        if not location.startswith("/"):
            raise _wrong(text, "the path of the socket must be absolute: unix:///run/redis.sock")
        return RedisUrl("standalone", masked(text), path=unquote(location), db=url_db or 0, **common)
    if "/" in credentials or "#" in credentials:
        raise _wrong(text, "user and password must be percent-encoded (/ as %2F, # as %23, @ as %40)")
    netloc, _, path = location.partition("/")
    hosts = _hosts(text, netloc, SENTINEL_PORT if kind == "sentinel" else REDIS_PORT)
    if kind == "standalone" and len(hosts) > 1:
        raise _wrong(text, "several hosts need redis+sentinel:// or redis+cluster://")
    service, db = _service_and_db(text, kind, path.rstrip("/"))
    return RedisUrl(kind, masked(text), hosts=hosts, service=service, db=db if url_db is None else url_db, **common)


def _service_and_db(text: str, kind: Kind, path: str) -> tuple[str, int]:
    """(name of the Sentinel service, database number) in the path of a URL."""
    if kind == "standalone":
        return "", _db(text, path)
    if kind == "cluster":
        if path not in ("", "0"):
            raise _wrong(text, "Redis Cluster has only database 0: leave the path out")
        return "", 0
    service, _, db = path.partition("/")
    if not service:
        raise _wrong(text, "the name of the Sentinel service is missing: redis+sentinel://host:26379/mymaster")
    return unquote(service), _db(text, db)


def _db(text: str, number: str) -> int:
    if number and not re.fullmatch(r"[0-9]{1,5}", number):
        raise _wrong(text, "the path must be the number of a database, like /0")
    return int(number or 0)


def _hosts(text: str, netloc: str, default_port: int) -> tuple[tuple[str, int], ...]:
    if not netloc:
        raise _wrong(text, "the host is missing")
    return tuple(_host(text, member.strip(), default_port) for member in netloc.split(","))


def _host(text: str, member: str, default_port: int) -> tuple[str, int]:
    """`host`, `host:port` or `[ipv6]:port`."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]\s]+)?(?::(.*))?", member)
    if match is None:
        raise _wrong(text, "a host must look like host, host:6379 or [::1]:6379")
    host, port = match.groups()
    if not host:
        raise _wrong(text, "a host is missing")
    if port is None:
        return host.strip("[]"), default_port
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        raise _wrong(
            text, "a port must be a number from 1 to 65535 (special characters of a password: percent-encoded)"
        )
    return host.strip("[]"), int(port)


def _options(text: str, kind: Kind, query: str, *, tls: bool) -> dict[str, Any]:
    """The query of a URL as redis-py's connection arguments (its own parsers give them their types)."""
    known = OPTIONS | EXTRA[kind] | (TLS_FILES | TLS_RULES if tls else frozenset())
    known = known if tls else frozenset(name for name in known if not name.startswith("ssl_"))
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise _wrong(text, _unknown_option(name, known, kind, tls=tls))
        try:
            options[name] = URL_QUERY_ARGUMENT_PARSERS.get(name, str)(value)
        except (TypeError, ValueError):
            raise _wrong(text, f"the option {name} has a value that cannot be read") from None
    return options


def _unknown_option(name: str, known: frozenset[str], kind: Kind, *, tls: bool) -> str:
    if name in OURS:
        return f"the option {name} is set by Frontdesk itself"
    if name.startswith("ssl_") and not tls:
        return f"the option {name} needs the scheme rediss"
    if kind == "cluster" and name == "db":
        return "Redis Cluster has only database 0"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"
    return f"there is no option {name!r}{hint}"
