"""How much one visitor or one address may do: token buckets and counters, with the clock passed in."""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass
class TokenBucket:
    """`burst` at once, then `per_s` each second. `take` gives 0 when allowed, else the milliseconds to wait."""

    burst: float
    per_s: float
    clock: Clock = time.monotonic
    level: float = field(init=False)
    at: float = field(init=False)

    def __post_init__(self) -> None:
        self.level = self.burst
        self.at = self.clock()

    def take(self) -> int:
        now = self.clock()
        self.level = min(self.burst, self.level + (now - self.at) * self.per_s)
        self.at = now
        if self.level >= 1:
            self.level -= 1
            return 0
        return math.ceil((1 - self.level) / self.per_s * 1000)


class Buckets:
    """One bucket per key (an address, a visitor), for the `keep` keys seen last."""

    def __init__(self, burst: float, per_s: float, *, keep: int = 10_000, clock: Clock = time.monotonic) -> None:
        self._burst, self._per_s, self._clock = burst, per_s, clock
        self._keep = keep
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, key: str) -> int:
        """0 when `key` may go on, else the milliseconds to wait."""
        bucket = self._buckets.pop(key, None) or TokenBucket(self._burst, self._per_s, self._clock)
        self._buckets[key] = bucket
        if len(self._buckets) > self._keep:
            self._buckets.popitem(last=False)
        return bucket.take()


class Places:
    """Counts what is open per key, with a ceiling."""

    def __init__(self, ceiling: int) -> None:
        self._ceiling = ceiling
        self._open: Counter[str] = Counter()

    def enter(self, key: str) -> bool:
        """True and counted, or False when `key` has all its places taken."""
        if self._open[key] >= self._ceiling:
            return False
        self._open[key] += 1
        return True

    def leave(self, key: str) -> None:
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]

    @property
    def total(self) -> int:
        return sum(self._open.values())
