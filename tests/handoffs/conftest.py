"""What several files of router tests start from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Model,
)

from handoffs.roster import Roster
from handoffs.router import Router
from sessions.live import Live
from sessions.store import Store
from tests.handoffs.desks import router_for


@pytest.fixture
def open_router(store: Store, live: Live, tmp_path: Path) -> Any:
    """Makes a router over a roster; `models` by agent id for agents without a model of their own."""

    def make(roster: Roster, models: Mapping[str, Model] | None = None) -> Router:
        return router_for(store, live, roster, models or {}, tmp_path)

    return make
