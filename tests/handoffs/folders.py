"""Agents folders for tests: a small valid one, and what to change in it."""

from __future__ import annotations

import textwrap
from pathlib import Path

DESK = """\
name: Test desk
start: triage
languages: [en, zh]
variables:
  shop_name: Luma
queues:
  support:
    name: {en: Support, zh: 客服}
    hours: always
"""
TRIAGE = """\
---
intended_use: Finds out what the customer needs.
transfer_to: [billing, human:support]
---
You greet customers of {shop_name}.
"""
BILLING = """\
---
name: {en: Billing, zh: 账务}
intended_use: Payments and invoices.
transfer_to: [triage, human:support]
---
You handle payments.
"""


def write(folder: Path, files: dict[str, str | bytes] | None = None, *, without: tuple[str, ...] = ()) -> Path:
    """A valid agents folder with `files` put over it and `without` left out; texts are dedented."""
    content: dict[str, str | bytes] = {"desk.yaml": DESK, "triage/agent.md": TRIAGE, "billing/agent.md": BILLING}
    content.update(files or {})
    for name, text in content.items():
        if name in without:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
    return folder


def agent_file(settings: str, body: str = "Do your work.") -> str:
    """An agent.md from its settings (dedented) and its instructions."""
    return f"---\n{textwrap.dedent(settings).strip()}\n---\n{body}\n"
