"""Small helpers that every test folder uses."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Callable
from typing import Any

SCALE = float(os.environ.get("FRONTDESK_TEST_TIMEOUT_SCALE", "1"))  # slow machines stretch every waiting time


async def wait_until(description: str, condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    """Poll `condition` (plain or async) until it gives something true; fail with `description` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s * SCALE
    while True:
        result = condition()
        if inspect.isawaitable(result):
            result = await result
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s * SCALE:.0f} s: {description} (last: {result!r})")
        await asyncio.sleep(0.02)
