"""What a run says about itself: operations by kind and outcome, faults, and the verdicts of the checkers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.faults.checkers import known_order, linear, screens
from tests.faults.checkers.evidence import Evidence, Violation
from tests.faults.checkers.linear import Verdict
from tests.faults.harness.recorded import SCRIPT_KINDS

SHOWN = 12  # violations in the text


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers of one run. `store_calls` counts calls of writing scripts, not log lines and not what clients did."""

    store_calls: int
    store_reads: int
    client_requests: int
    messages_acknowledged: int
    messages_answered: int
    faults: int
    details: str
    violations: tuple[Violation, ...]
    verdicts: tuple[Verdict, ...]
    settled_s: float
    screen_items: int  # events and pieces that customers were shown

    @classmethod
    def judge(cls, evidence: Evidence) -> Report:
        """Let every checker look at the evidence, and count."""
        violations, verdicts = [*known_order.check(evidence), *screens.check(evidence)], linear.check(evidence)
        kinds = Counter(op.kind for op in evidence.operations)
        outcomes = Counter(f"{op.kind}:{op.outcome}" for op in evidence.operations)
        faults = ", ".join(f"{count} x {kind}" for kind, count in sorted(evidence.faults.items()))
        calls = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
        sent = {op.request for op in evidence.operations if op.kind == "client.send" and op.outcome in ("ok", "dup")}
        asked = sum(e.by == "customer" for record in evidence.records.values() for e in record.events)
        return cls(
            store_calls=sum(kinds[kind] for kind in SCRIPT_KINDS),
            store_reads=kinds["get"],
            client_requests=sum(count for kind, count in kinds.items() if kind.startswith("client.")),
            messages_acknowledged=len(sent),
            messages_answered=asked - sum(len(record.waiting) for record in evidence.records.values()),
            faults=sum(evidence.faults.values()),
            details=f"  faults: {faults}\n  calls: {calls}",
            violations=tuple(violations),
            verdicts=tuple(verdicts),
            settled_s=evidence.settled_s,
            screen_items=sum(map(len, evidence.screens.values())),
        )

    @property
    def good(self) -> bool:
        """No promise was broken, as far as the checkers can say."""
        return not self.violations and not any(verdict.linear is False for verdict in self.verdicts)

    def text(self) -> str:
        """For people."""
        kinds = Counter(violation.kind for violation in self.violations)
        bad = [f"  VIOLATION {violation}" for violation in self.violations[:SHOWN]]
        bad += [f"  NOT LINEARIZABLE {v.conversation_id}" for v in self.verdicts if v.linear is False][:SHOWN]
        return "\n".join(
            [
                f"  {self.store_calls} store calls, {self.store_reads} reads, {self.client_requests} client requests, "
                f"{self.messages_acknowledged} messages acknowledged, {self.messages_answered} answered, "
                f"{self.screen_items} items on screens, {self.faults} faults, quiet after {self.settled_s:.1f} s",
                self.details,
                f"  {linear.summary(self.verdicts)}",
                *bad,
                f"  {'PASS' if self.good else 'FAIL: ' + str(dict(kinds))}",
            ]
        )
