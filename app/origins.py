"""Which web pages may use this desk. Checked by hand: CORS middleware does not run on WebSockets."""

from __future__ import annotations

from collections.abc import Iterable


def allowed(origin: str | None, host: str | None, scheme: str, sites: Iterable[str]) -> bool:
    """Whether a page of `origin` may connect: this server's own pages, or exactly one of `sites` (`*`: all).

    A missing or `null` origin is refused: browsers always send one, and a program can name its own.
    """
    if not origin or origin == "null":
        return False
    own = {"ws": "http", "wss": "https"}.get(scheme, scheme)
    if host and origin.lower() in (f"{own}://{host}".lower(), f"https://{host}".lower()):
        return True  # https too: a proxy in front may have ended TLS
    return any(site in ("*", origin.lower()) for site in (site.lower() for site in sites))
