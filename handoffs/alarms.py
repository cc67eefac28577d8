"""What operators should hear about although every conversation went on: counted per process since it started."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Literal

log = logging.getLogger("frontdesk.alarms")

Alarm = Literal["loop_guard", "announced_only", "guardrail"]
ALARMS: tuple[Alarm, ...] = ("loop_guard", "announced_only", "guardrail")


class Alarms:
    """Counters, shown by `GET /readyz`. One warning in the log for each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(ALARMS, 0))

    def ring(self, alarm: Alarm, conversation_id: str, agent_id: str, what: str = "") -> None:
        """Count it and say it. `what` is for people who read the log: nothing a customer wrote."""
        self.counts[alarm] += 1
        log.warning("%s: %s at %s%s", conversation_id, alarm.replace("_", " "), agent_id, f": {what}" if what else "")
