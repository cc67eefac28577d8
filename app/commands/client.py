"""Talking to a running server over HTTP: conversations for the desk, and errors in words."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2

from app.banner import local_url
from app.commands.output import CommandFailed, ExitCode
from app.keys import desk_key_file
from app.settings import Settings
from handoffs.record import MARK

TIMEOUT_S = 10.0


def server_url(settings: Settings, url: str | None) -> str:
    """`--url`, else where `frontdesk serve` listens with the same settings."""
    chosen = (url or local_url(settings.host, settings.port)).rstrip("/")
    parts = urlsplit(chosen)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise CommandFailed(f"--url must be an address like http://127.0.0.1:8000, got {chosen!r}", ExitCode.USAGE)
    return chosen


def is_local(url: str) -> bool:
    """Whether `url` is this machine, which no proxy can reach."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def existing_key(settings: Settings, key: str | None) -> str:
    """`--key`, FRONTDESK_API_KEY, or the key file of the data folder. Never a new one, which no server would know."""
    if key and not (key.isascii() and key.isprintable()):
        raise CommandFailed(
            "--key has characters that no key has; `frontdesk key` prints the right one", ExitCode.REFUSED
        )
    if key:
        return key
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    file = desk_key_file(settings)
    try:
        return file.read_text().strip()
    except OSError:
        raise CommandFailed(
            f"There is no key: give --key, set FRONTDESK_API_KEY, or run this where the server runs (no {file} here)",
            ExitCode.REFUSED,
        ) from None


def no_server(url: str, error: Exception) -> CommandFailed:
    """The failure when nothing answers at `url`."""
    why = f" ({error})" if str(error) else ""
    return CommandFailed(
        f"No Frontdesk server answers at {url}{why}; start one with `frontdesk serve`", ExitCode.NO_SERVER
    )


class Api:
    """The REST API of one server, with the desk's key."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._http = httpx2.Client(
            base_url=url,
            timeout=TIMEOUT_S,
            headers={"Authorization": f"Bearer {key}"},
            trust_env=not is_local(url),
        )

    def conversations(self, limit: int) -> dict[str, Any]:
        """`{"conversations": [...]}`, the ones that changed last first."""
        return self._get("/v1/conversations", limit=limit)

    def conversation(self, conversation_id: str) -> dict[str, Any]:
        """One conversation with transcript and events; CommandFailed (NOT_FOUND) when there is none."""
        return self._get(f"/v1/conversations/{quote(conversation_id, safe='')}")

    def timeline(self, conversation_id: str) -> dict[str, Any]:
        """Who owned one conversation, one tenure after the other; CommandFailed (NOT_FOUND) when there is none."""
        return self._get(f"/v1/conversations/{quote(conversation_id, safe='')}/timeline")

    def runs(self, conversation_id: str | None, after: str | None, limit: int) -> dict[str, Any]:
        """`{"runs": [...], "next": ...}`, newest first; CommandFailed (NOT_FOUND) for an unknown conversation."""
        query = {"conversation": conversation_id, "after": after, "limit": limit}
        return self._get("/v1/runs", **{name: value for name, value in query.items() if value is not None})

    def run(self, run_id: str) -> dict[str, Any]:
        """One run whole; CommandFailed (NOT_FOUND) when there is no record of it."""
        return self._get(f"/v1/runs/{quote(run_id, safe='')}")

    def run_of(self, id_: str) -> dict[str, Any]:
        """One run whole, by its own id, or the newest one of the conversation of that id."""
        if MARK in id_:
            return self.run(id_)
        newest = self.runs(id_, None, 1)["runs"]
        if not newest:
            raise CommandFailed(f"there is no record of a run of {id_}", ExitCode.NOT_FOUND)
        return self.run(newest[0]["id"])

    def approvals(self, conversation_id: str | None) -> dict[str, Any]:
        """`{"approvals": [...]}`: of one conversation, or every one that waits."""
        if conversation_id is None:
            return self._get("/v1/approvals")
        return self._get(f"/v1/conversations/{quote(conversation_id, safe='')}/approvals")

    def decide(self, conversation_id: str, approval_id: str, answer: dict[str, Any]) -> dict[str, Any]:
        """The approval as it is now; CommandFailed (REFUSED) when somebody was first or it is void."""
        path = f"/v1/conversations/{quote(conversation_id, safe='')}/approvals/{quote(approval_id, safe='')}"
        try:
            response = self._http.post(path, json=answer)
        except httpx2.HTTPError as error:
            raise no_server(self._url, error) from None
        return answer_of(response, self._url)

    def close(self) -> None:
        self._http.close()

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        try:
            response = self._http.get(path, params=query)
        except httpx2.HTTPError as error:
            raise no_server(self._url, error) from None
        return answer_of(response, self._url)


def answer_of(response: httpx2.Response, url: str) -> dict[str, Any]:
    """The JSON object of a good answer; CommandFailed with the server's own words otherwise."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise CommandFailed(
            f"{url} answers, but it is no Frontdesk server (status {response.status_code})", ExitCode.NO_SERVER
        )
    if response.is_success:
        return body
    error = body.get("error")
    message = str(error.get("message")) if isinstance(error, dict) else f"status {response.status_code}"
    codes = {404: ExitCode.NOT_FOUND, 503: ExitCode.STORE, **dict.fromkeys((401, 403, 409), ExitCode.REFUSED)}
    raise CommandFailed(f"The server says: {message}", codes.get(response.status_code, ExitCode.NO_SERVER))
