"""Small helpers that every test folder uses."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

SCALE = float(os.environ.get("FRONTDESK_TEST_TIMEOUT_SCALE", "1"))  # slow machines stretch every waiting time


async def wait_until(description: str, condition: Callable[[], T | Awaitable[T]], timeout_s: float = 10.0) -> T:
    """Poll `condition` (plain or async) until it gives something true; fail with `description` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s * SCALE
    while True:
        found = condition()
        result: T = await found if inspect.isawaitable(found) else found  # type: ignore[assignment]  # isawaitable does not narrow T
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s * SCALE:.0f} s: {description} (last: {result!r})")
        await asyncio.sleep(0.02)
