"""Fixtures of the contract tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessions.live import Live
from sessions.store import Store
from tests.contract.reports import Stage


@pytest.fixture
def stage(store: Store, live: Live, tmp_path: Path, conversation_id: str) -> Stage:
    """A conversation on a desk that a test of a public report opens."""
    return Stage(store, live, tmp_path, conversation_id)
