"""What `frontdesk serve` says when it is ready, in plain words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from handoffs.roster import Roster

EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104  # compared with, not bound to


@dataclass(frozen=True)
class Banner:
    """Everything the banner says; `key_place` says where the desk's key is, never the key itself."""

    version: str
    url: str
    key_place: str
    store: str
    model: str
    roster: str
    warnings: tuple[str, ...] = ()

    def lines(self) -> list[tuple[str, str]]:
        """Label and sentence, top to bottom."""
        return [
            ("Chat", f"{self.url}/"),
            ("Desk", f"{self.url}/desk  (key: {self.key_place})"),
            ("Agents", self.roster),
            ("Model", self.model),
            ("Store", self.store),
        ]


def local_url(host: str, port: int) -> str:
    """An address that works in a browser on this machine."""
    shown = "127.0.0.1" if host in EVERYWHERE else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def describe_roster(roster: Roster, folder: str) -> str:
    """`5 agents (triage first, then billing ...) and 1 queue of people, from agents (version 1a2b3c4d)`."""
    others = [agent_id for agent_id in roster.agents if agent_id != roster.desk.start]
    named = f"{roster.desk.start} first" + (f", then {', '.join(others)}" if others else "")
    queues = len(roster.desk.queues)
    people = f" and {queues} {'queue' if queues == 1 else 'queues'} of people" if queues else ", no queue of people"
    count = len(roster.agents)
    return (
        f"{count} {'agent' if count == 1 else 'agents'} ({named}){people}, from {folder} (version {roster.version[:8]})"
    )


def render(banner: Banner) -> RenderableType:
    """The banner for a terminal."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for label, sentence in banner.lines():
        table.add_row(f"  {label}", Text(sentence))
    title = Text(f"Frontdesk {banner.version} is ready", style="bold green")
    return Group(title, table, *_warnings(banner.warnings), Text("  Ctrl-C stops it.", style="dim"))


def _warnings(warnings: Iterable[str]) -> list[Text]:
    return [Text("  ! ", style="bold yellow").append(Text(warning, style="yellow not bold")) for warning in warnings]
