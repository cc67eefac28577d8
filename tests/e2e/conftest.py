"""A real server and a real browser: the parts of the end-to-end tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.e2e.browser import Windows, chromium, launched
from tests.e2e.server import ServerProcess


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`frontdesk serve` with a store of its own, shared by the tests that do not end it; each is a new visitor."""
    process = ServerProcess(tmp_path_factory.mktemp("server"))
    process.start()
    yield process
    process.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """`frontdesk serve` for one test, which may kill it and start it again."""
    process = ServerProcess(tmp_path)
    process.start()
    yield process
    process.stop()


@pytest.fixture
async def windows() -> AsyncIterator[Windows]:
    """Browser windows; afterwards no script may have failed and no content policy may have been violated."""
    if chromium() is None:
        pytest.skip("no Chromium here: apt-get install chromium, or set FRONTDESK_TEST_CHROMIUM")
    async with launched() as browser:
        opened = Windows(browser)
        yield opened
        assert await opened.found() == []
