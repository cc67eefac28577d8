"""One model call as the offline model sees it: who it is, what was said, where it may go. Plain data and look-ups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from app.offline.conversation import Conversation, ToolCall
from app.offline.directory import Directory
from app.offline.sentences import language_of
from app.offline.slots import references
from app.offline.steps import Call
from app.offline.texts import joined, phrase
from app.offline.toolset import TRANSFER, Toolset

TARGETS_NAMED = 6  # more names than that in one sentence help nobody
FACTS_KEPT = 8
TRIED_KEPT = 3  # results of the newest tool calls that travel with a transfer
TRIED_CHARS = 300


@dataclass(frozen=True)
class Situation:
    """`me` is the agent that this call answers for."""

    me: str
    talk: Conversation
    tools: Toolset
    desk: Directory

    @cached_property
    def language(self) -> str:
        """The customer's, by the script of the newest message that has letters in it; English when none has."""
        texts = (*reversed(self.talk.messages), *self.talk.earlier_messages)
        return next((code for code in map(language_of, texts) if code), "en")

    @cached_property
    def subject(self) -> str:
        """`me` when this agent is a specialist, else empty: triage."""
        return self.me if self.me != self.desk.start and self.desk.has_subject(self.me) else ""

    @cached_property
    def refused(self) -> frozenset[str]:
        """Targets that were asked for in this turn. We are called again, so nobody was transferred."""
        return frozenset(str(call.arguments.get("agent_id")) for call in self.talk.called(TRANSFER))

    def say(self, key: str, **values: str) -> str:
        return phrase(self.language, key, **values)

    def name(self, target: str) -> str:
        return self.desk.name(target, self.language)

    def reachable(self, agent_id: str) -> str | None:
        """Where to send what belongs to `agent_id`: there, else to the start agent, which knows more ways, or None."""
        ways = (agent_id, self.desk.start)
        return next((w for w in ways if w != self.me and w in self.tools.agents and w not in self.refused), None)

    def person(self, subject: str = "") -> str | None:
        """The human target for a subject, else for this agent, else any; then the start agent; None without a way."""
        human = self.tools.human_for(subject or self.me, self.me)
        if human and human not in self.refused:
            return human
        return self.reachable(self.desk.start)

    def topics(self) -> str:
        """A sentence that names the agents one can be passed to; empty when there is none."""
        agents = [target for target in self.tools.agents if target != self.desk.start][:TARGETS_NAMED]
        names = [self.name(target) for target in (*agents, *self.tools.humans[:1])]
        return self.say("topics", targets=joined(self.language, names)) if names else ""

    def transfer(self, target: str, goal: str, reason: str, open_questions: tuple[str, ...] = ()) -> Call:
        """The call that asks for a transfer, with its brief."""
        brief = {
            "goal": goal,
            "facts": self._facts(),
            "tried": [f"{call.name}: {(call.output or '')[:TRIED_CHARS]}" for call in self._worked()[-TRIED_KEPT:]],
            "promised": [],
            "open_questions": list(open_questions),
        }
        return Call(TRANSFER, {"agent_id": target, "reason": reason, "brief": brief})

    def _facts(self) -> list[str]:
        """What the customer named: codes and addresses, and the facts that came with the newest note."""
        told = list(self.talk.notes[-1].facts) if self.talk.notes else []
        texts = (*self.talk.messages, *self.talk.earlier_messages)
        named = list(dict.fromkeys(code for text in texts for code in references(text)))
        fresh = [code for code in named if not any(code in fact for fact in told)]
        mentioned = [self.say("fact_mentioned", values=", ".join(fresh))] if fresh else []
        return [*told, *mentioned][:FACTS_KEPT]

    def _worked(self) -> list[ToolCall]:
        """Calls of the agent's own tools, oldest first."""
        own = {tool.name for tool in self.tools.own}
        return [call for call in (*self.talk.done, *self.talk.calls) if call.name in own and call.output]
