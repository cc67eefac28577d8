"""The webhook: every step of a handoff, and every change of owner, as a signed request to the operator's address.

Headers and signature are those of Standard Webhooks (https://www.standardwebhooks.com), so receivers verify them with
one of its libraries. Nothing of the answer is read but its status, no redirect is followed, and an address that leads
to the machine's own metadata service is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from standardwebhooks import Webhook as Signer

from app.commands.client import is_local
from app.public_view import iso
from app.settings import Settings
from app.sinks import Deliveries, NotDelivered
from handoffs.hooks import HandoffInfo, Hooks
from sessions.model import Event
from sessions.store import Store

TIMEOUT_S: Final = 10.0  # for the whole request; the receiver should answer first and work afterwards
PARTS: Final = ("from", "to", "reason", "brief", "decided_by", "why")


class Webhook:
    """A sink (see app/sinks.py). `secret` is `whsec_...`; neither it nor the query of the address is ever logged."""

    name = "webhook"

    def __init__(self, url: str, secret: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._signer = Signer(secret)
        self._timeout_s = timeout_s
        self._http = httpx2.AsyncClient(follow_redirects=False, timeout=timeout_s, trust_env=not is_local(url))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def wants(self, event: Event) -> bool:
        return event.type.startswith("handoff.") or event.type == "owner.changed"

    async def deliver(self, conversation_id: str, event: Event) -> None:
        """One POST. NotDelivered unless the answer is 2xx within the time."""
        body = json.dumps(payload(conversation_id, event), ensure_ascii=False, separators=(",", ":"))
        identity, at = webhook_id(conversation_id, event), datetime.now(UTC)
        headers = {
            "content-type": "application/json",
            "user-agent": "frontdesk-webhook",
            "webhook-id": identity,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": self._signer.sign(identity, at, body),
        }
        try:
            async with asyncio.timeout(self._timeout_s):
                await check_address(self._url)
                request = self._http.build_request("POST", self._url, content=body.encode(), headers=headers)
                response = await self._http.send(request, stream=True)
                await response.aclose()
        except TimeoutError:
            raise NotDelivered(f"no answer within {self._timeout_s:g} s") from None
        except (httpx2.HTTPError, OSError) as error:
            raise NotDelivered(f"{type(error).__name__}: {error}") from None
        if not response.is_success:
            raise NotDelivered(f"the answer was {response.status_code}", retry_after(response))


@asynccontextmanager
async def delivering(settings: Settings, store: Store, hooks: Hooks) -> AsyncIterator[None]:
    """Deliver to the webhook of the settings in the background; nothing when there is none. `hooks` say what is new."""
    if settings.webhook_url is None or settings.webhook_secret is None:
        yield
        return
    webhook = Webhook(settings.webhook_url.get_secret_value(), settings.webhook_secret.get_secret_value())
    deliveries = Deliveries(store, webhook)

    async def hear(info: HandoffInfo) -> None:
        deliveries.news_of(info.conversation_id)

    hooks.on_handoff(hear)
    await deliveries.start()
    try:
        yield
    finally:
        await deliveries.stop()
        await webhook.close()


def payload(conversation_id: str, event: Event) -> dict[str, Any]:
    """What is sent. The seed itself stays here: `seed_size` says how many characters the new owner was shown."""
    data: dict[str, Any] = {
        "conversation_id": conversation_id,
        "event_id": event.id,
        "seq": event.seq,
        "epoch": event.epoch,
        "by": event.by,
    }
    data |= {key: event.data[key] for key in PARTS if key in event.data}
    if event.owner_to:
        data |= {"owner_from": event.owner_from, "owner_to": event.owner_to}
    if event.type == "handoff.completed":
        data["seed_size"] = sum(len(str(text)) for text in event.data.get("seed", ()))
    return {"type": event.type, "timestamp": iso(event.at), "data": data}


def webhook_id(conversation_id: str, event: Event) -> str:
    """The same for every attempt to deliver this event, and for no other event."""
    return "msg_" + hashlib.sha256(f"{conversation_id}\x00{event.id}".encode()).hexdigest()[:32]


def retry_after(response: httpx2.Response) -> float | None:
    """The seconds that the receiver asks for; dates are not understood."""
    wish = response.headers.get("retry-after", "")
    return float(wish) if wish.isascii() and wish.isdigit() else None


async def check_address(url: str) -> None:
    """NotDelivered when the host leads to an address that no receiver has: link-local (metadata), multicast, none."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = await asyncio.get_running_loop().getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    for *_, where in found:
        address = ipaddress.ip_address(str(where[0]).partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None)
        address = mapped or address
        if address.is_link_local or address.is_multicast or address.is_unspecified or address.is_reserved:
            raise NotDelivered(f"{parts.hostname} is {address}, where no receiver may be")
