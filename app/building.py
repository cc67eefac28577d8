"""Puts the parts of a desk together when a server starts, and takes them apart in the right order when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from app.desk import Desk
from app.identity import Identity
from app.keys import desk_key
from app.mcp import connected
from app.models import ModelChoice, choose_models
from app.offline.encoder import SentenceEncoder
from app.settings import Settings, agents_folder
from app.webhook import delivering
from handoffs.encoder import Encoder
from handoffs.hooks import Hook
from handoffs.loader import load_roster
from handoffs.roster import Roster
from handoffs.router import Router
from handoffs.sdk_agents import mcp_servers
from handoffs.team import Models, Team
from sessions.connect import connect
from sessions.live import Live
from sessions.store import Store

ChooseModels = Callable[[Settings, Roster, Callable[[], Encoder]], ModelChoice]


@asynccontextmanager
async def open_desk(
    settings: Settings,
    *,
    roster: Roster | None = None,
    choose: ChooseModels = choose_models,
    works: bool = True,
    on_handoff: Iterable[Hook] = (),
) -> AsyncIterator[Desk]:
    """A running desk. Raises RosterInvalid, ModelMisconfigured, McpServerFailed or StoreError before anything is open.

    `roster` is one made in Python (`Roster.from_agents`); without it the agents folder of the settings is read.
    `choose` decides which models answer; tests pass scripted ones. Without `works` other processes run the turns.
    `on_handoff` are called after each step of a handoff that this process makes.
    """
    if roster is None:
        roster = await asyncio.to_thread(load_roster, agents_folder(settings))
    team, models = await asyncio.to_thread(_team, settings, roster, choose)  # loads 50 MB of weights: not in the loop
    async with AsyncExitStack() as stack:
        backend = await connect(settings.redis_address, data_dir=settings.data_dir, production=settings.production)
        stack.push_async_callback(backend.close)
        store = Store(backend, lease_ms=round(settings.lease_s * 1000), runs_keep=settings.runs_kept)
        live = Live(backend, store)
        await live.start()
        stack.push_async_callback(live.stop)
        if works:
            await stack.enter_async_context(connected(mcp_servers(roster)))
        router = Router(store, live, team, works=works, on_handoff=on_handoff)
        await router.start()
        stack.push_async_callback(router.stop, settings.stop_grace_s)
        await stack.enter_async_context(delivering(settings, store, router.hooks))
        yield Desk(
            settings=settings,
            backend=backend,
            store=store,
            live=live,
            router=router,
            identity=Identity(await _visitor_secret(settings, store)),
            api_key=desk_key(settings),
            model_description=models.description,
            offline=models.offline,
        )


def _team(settings: Settings, roster: Roster, choose: ChooseModels) -> tuple[Team, ModelChoice]:
    encoder = SentenceEncoder()  # one for routing and for knowledge: it remembers what it has encoded
    models = choose(settings, roster, lambda: encoder)
    checked: Models = models
    return Team.load(roster, checked, data_dir=settings.data_dir, encoder=encoder), models


async def _visitor_secret(settings: Settings, store: Store) -> str:
    """FRONTDESK_SECRET, or one that is made once and kept in Redis, so that every process knows every visitor."""
    if settings.secret is not None:
        return settings.secret.get_secret_value()
    return await store.secret("visitor-tokens")
