"""What the offline model knows of a desk: its agents' own words, their names, where a conversation starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.offline.classifier import Subject
from app.offline.remarks import plain
from app.offline.toolset import HUMAN
from handoffs.roster import AgentSpec, Roster, Text

NAMED_WORDS = 4  # "billing please" names a desk; in a longer message a name is just a word


@dataclass(frozen=True)
class Directory:
    """A desk as routing sees it. `names` maps (target, language) to a display name."""

    version: str
    start: str
    subjects: tuple[Subject, ...]
    names: Mapping[tuple[str, str], str]
    instructions: Mapping[str, str]
    queues: tuple[Subject, ...] = ()  # by target: `human:support`

    @classmethod
    def of(cls, roster: Roster) -> Directory:
        """Take what routing needs out of a roster."""
        targets = [*roster.agents, *(HUMAN + queue for queue in roster.desk.queues)]
        languages = dict.fromkeys(("en", "zh", *roster.desk.languages))
        return cls(
            version=roster.version,
            start=roster.desk.start,
            subjects=tuple(_subject(agent) for agent in roster.agents.values() if _has_subject(agent, roster)),
            names={(target, code): roster.display_name(target, code) for target in targets for code in languages},
            instructions={agent.id: agent.instructions.strip() for agent in roster.agents.values()},
            queues=tuple(Subject(HUMAN + key, _uses(queue.intended_use)) for key, queue in roster.desk.queues.items()),
        )

    def name(self, target: str, language: str) -> str:
        """The display name of a target in a language; an unknown target gives its id in words."""
        return self.names.get((target, language)) or target.removeprefix(HUMAN).replace("_", " ")

    def has_subject(self, agent_id: str) -> bool:
        return any(subject.agent_id == agent_id for subject in self.subjects)

    def named_in(self, text: str, targets: Iterable[str]) -> str | None:
        """The one target that a short message names ("billing please", "转到账单"); None for none or several."""
        words = plain(text)
        if not words or len(words.split()) > NAMED_WORDS or len(words) > 30:
            return None
        found = {target for target in targets if any(_mentions(words, name) for name in self._known_as(target))}
        return found.pop() if len(found) == 1 else None

    def agent_of(self, system: str | None) -> str:
        """The agent whose instructions are in a system text; the start agent when none is found."""
        texts = sorted(self.instructions.items(), key=lambda pair: -len(pair[1]))
        return next((agent for agent, text in texts if text and text in (system or "")), self.start)

    def _known_as(self, target: str) -> set[str]:
        names = {plain(name) for (ref, _), name in self.names.items() if ref == target}
        return names if target.startswith(HUMAN) else {*names, target.replace("_", " ")}


def _has_subject(agent: AgentSpec, roster: Roster) -> bool:
    """The start agent is about nothing of its own, unless its file gives examples of what it answers itself."""
    return agent.id != roster.desk.start or bool(agent.examples)


def _subject(agent: AgentSpec) -> Subject:
    return Subject(agent.id, _uses(agent.intended_use), tuple(agent.examples))


def _uses(use: Text) -> tuple[str, ...]:
    return (use,) if isinstance(use, str) else tuple(use.values())


def _mentions(words: str, name: str) -> bool:
    if not name:
        return False
    if not name.isascii():
        return name in words
    return bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words))
