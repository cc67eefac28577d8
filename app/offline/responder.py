"""What the offline model does in one call: move the conversation, do the agent's own work, or say something.

Only the customer's own messages can move a conversation. A handoff note and tool results are data: they are searched
for slot values and quoted, and nothing in them is a wish.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.offline.classifier import Classifier
from app.offline.decision import Decision, Rule, belongs_elsewhere, decide, in_scope
from app.offline.followup import FollowUp, Kind, follow_up, is_short
from app.offline.queues import Queues
from app.offline.reading import Reading, read_messages
from app.offline.remarks import Remarks
from app.offline.sentences import split
from app.offline.situation import Situation
from app.offline.steps import Call, Say, Step
from app.offline.texts import find, is_own
from app.offline.work import Done, Missing, Outcome, Quoted, Unknown, ask, next_outcome, wanted
from handoffs.encoder import Encoder

REQUESTS_ANSWERED = 3  # of one turn; the rest of a longer list is for the customer to repeat
EARLIER_READ = 6  # customer messages back in which a pending request is looked for
SURE_TALK = 0.55  # of a sentence to a listed remark before it is answered as one; less near, it is only not routed
# Which remark is answered when a message has several.
TALK = ("help", "bot", "thanks", "bye", "no", "yes", "greeting", "mood")


@dataclass(frozen=True)
class Answer:
    """The step, and the decision with its trace that led to it (None when the agent's own last question decided)."""

    step: Step
    decision: Decision | None = None


@dataclass(frozen=True)
class Responder:
    """The fitted parts. Stateless between calls: everything it knows of a conversation is in the call's input."""

    classifier: Classifier | None
    queues: Queues
    remarks: Remarks
    encoder: Encoder
    floor: float

    def respond(self, at: Situation) -> Answer:
        """The next step of the agent `at.me`. CPU-bound, about 10 ms: call it in a thread."""
        answered = self._after_question(at)
        if answered is not None:
            return Answer(answered)
        readings = self._read(at, at.talk.messages)
        decision = decide(readings, self.floor, at.subject, at.desk.start)
        if decision.rule is not Rule.HUMAN and (moved := self._to_queue(at, readings)):
            return Answer(moved, decision)
        return Answer(self._step(at, decision), decision)

    def _to_queue(self, at: Situation, readings: tuple[Reading, ...]) -> Step | None:
        """The transfer to the people whose own subject a message is ("I want to complain")."""
        parts = [part for reading in readings for part in (reading.whole, *reading.clauses)]
        targets = [target for target in at.tools.humans if target not in at.refused]
        found = self.queues.target_of(parts, targets, self.floor)
        if found is None:
            return None
        return at.transfer(found[0], at.talk.text, at.say("reason_subject", name=at.name(found[0])))

    def _read(self, at: Situation, messages: tuple[str, ...]) -> tuple[Reading, ...]:
        slots = [slot for tool in at.tools.own for slot in tool.slots if not slot.is_free_text]
        return read_messages(messages, self.classifier, self.remarks, slots)

    def _decide(self, at: Situation, messages: tuple[str, ...]) -> Decision:
        return decide(self._read(at, messages), self.floor, at.subject, at.desk.start)

    # -- answers to what the model asked -------------------------------------------------------------------------

    def _after_question(self, at: Situation) -> Step | None:
        """The step when this turn's message answers the model's last question, or just names an agent."""
        remark = self.remarks.of([at.talk.text])[0] if is_short(at.talk.text) else None
        meant = follow_up(at, remark)
        if meant is not None:
            return self._meant(at, meant)
        if remark and remark.kind == "yes" and (question := last_question(at.talk.last_reply)):
            return self._work(at, (question,), Decision(Rule.OWN, at.me, question, (question,)))
        named = at.desk.named_in(at.talk.text, at.tools.targets)
        if named and named != at.me and named not in at.refused and not (remark and remark.exact):
            goal = self._pending_text(at) or at.talk.text
            return at.transfer(named, goal, at.say("reason_named", name=at.name(named)))
        return None

    def _meant(self, at: Situation, meant: FollowUp) -> Step | None:
        if meant.kind is Kind.NEITHER:
            return Say(_lines(at.say("neither"), at.topics()))
        if meant.kind is Kind.DECLINED:
            return Say(at.say("no"))
        if meant.kind is Kind.CHOSE and meant.value not in at.refused:
            goal = self._pending_text(at) or at.talk.text
            return at.transfer(meant.value, goal, at.say("reason_named", name=at.name(meant.value)))
        if meant.kind is Kind.WANTS_PERSON:
            return self._to_person(at, self._pending_text(at) or at.talk.text)
        if meant.kind is Kind.WANTS_PASS and self.classifier:
            agent = self.classifier.match([meant.value])[0].best
            target = at.reachable(agent)
            if target:
                return at.transfer(target, meant.value, at.say("reason_subject", name=at.name(agent)))
        return None

    # -- what the messages ask for -------------------------------------------------------------------------------

    def _step(self, at: Situation, decision: Decision) -> Step:
        if decision.rule is Rule.HUMAN:
            goal = next(iter(decision.open_questions), "") or self._pending_text(at) or decision.text
            return self._to_person(at, goal, decision.target, decision.open_questions[1:])
        if decision.rule is Rule.TRANSFER:
            moved = self._ask(at, decision) or self._move(at, decision)
            if moved is not None:
                return moved
            decision = Decision(Rule.OWN, at.me, decision.text, (decision.text,), trace=decision.trace)
        requests = self._requests(at, decision)
        if requests:
            return self._work(at, requests[:REQUESTS_ANSWERED], decision)
        return Say(self._talk(at, decision))

    def _ask(self, at: Situation, decision: Decision) -> Step | None:
        """What a colleague who can only be asked says to it; None when there is none, or it gave no answer."""
        tool = at.tools.asking(decision.target)
        outcome = ask(at, tool, decision.text) if tool else Unknown()
        if isinstance(outcome, Call):
            return outcome
        if isinstance(outcome, Missing):
            return Say(at.say("slot", what=wanted(outcome.slot, at.language)))
        return Say(outcome.text) if isinstance(outcome, Done) and outcome.text else None

    def _move(self, at: Situation, decision: Decision) -> Step | None:
        """The transfer; words when there is no way there; None to go on as if it were the agent's own subject."""
        if at.talk.note and at.talk.note.sender == decision.target:
            return None  # it just came from there: sending it back at once helps nobody
        target = at.reachable(decision.target)
        if target:
            reason = at.say("reason_subject", name=at.name(decision.target))
            return at.transfer(target, decision.text, reason, decision.open_questions)
        name = at.name(decision.target)
        if decision.target in at.refused:
            return Say(_lines(at.say("refused", name=name), self._offer_person(at)))
        return None if at.subject else Say(_lines(at.say("elsewhere", name=name), self._offer_person(at)))

    def _to_person(self, at: Situation, goal: str, topic: str = "", more: tuple[str, ...] = ()) -> Step:
        target = at.person(topic)
        if target:
            return at.transfer(target, goal, at.say("reason_human"), more)
        refused = next((t for t in at.tools.humans if t in at.refused), None)
        return Say(at.say("refused", name=at.name(refused)) if refused else at.say("no_person"))

    def _requests(self, at: Situation, decision: Decision) -> tuple[str, ...]:
        """What the agent has to work on itself: the messages' requests, or the pending one that a value belongs to."""
        able = at.tools.own or at.tools.can_search
        if not able:
            return ()
        if decision.rule in (Rule.STAY, Rule.OWN) and decision.requests:
            chosen = at.desk.named_in(at.talk.text, [at.me])  # "billing please": what it is about was said before
            return self._pending(at) if chosen and at.talk.note else decision.requests
        if decision.rule is Rule.SMALL_TALK and not (at.talk.note or self._asked_for_slot(at) or self._gave_value(at)):
            return ()
        if decision.rule in (Rule.OWN, Rule.SMALL_TALK):
            return self._pending(at)
        return ()

    def _asked_for_slot(self, at: Situation) -> bool:
        said = at.talk.last_reply
        return find("slot", said) is not None

    def _gave_value(self, at: Situation) -> bool:
        """Whether the messages hold a bare slot value: the same question again, about something else."""
        return any(reading.whole.slot_only for reading in self._read(at, at.talk.messages))

    # -- pending requests ----------------------------------------------------------------------------------------

    def _pending(self, at: Situation) -> tuple[str, ...]:
        """The newest earlier request of the customer that this agent would answer; a note's goal when it just came."""
        note = at.talk.note
        texts = ((note.goal,) if note else ()) + at.talk.earlier_messages[:EARLIER_READ]
        for text in texts:
            found = self._decide(at, (text,))
            if found.requests:
                return found.requests
        return ()

    def _pending_text(self, at: Situation) -> str:
        """The newest earlier message that asks for something that some agent is for."""
        for text in at.talk.earlier_messages[:EARLIER_READ]:
            parts = [reading.whole for reading in self._read(at, (text,))]
            if any(part.is_request and part.match and in_scope(part.match, self.floor) for part in parts):
                return text
        return ""

    # -- words ---------------------------------------------------------------------------------------------------

    def _work(self, at: Situation, requests: tuple[str, ...], decision: Decision) -> Step:
        """The first call that is still needed; when there is none, the answer made of all outcomes."""
        outcomes: list[Outcome] = []
        for request in requests:
            found = next_outcome(at, request, self.encoder)
            if isinstance(found, Call):
                return found
            if found not in outcomes:
                outcomes.append(found)
        if all(isinstance(outcome, Unknown) for outcome in outcomes):
            return Say(self._at_a_loss(at, requests, decision))
        return Say(_lines(*(self._told(at, outcome) for outcome in outcomes), self._closing(at, outcomes, decision)))

    def _at_a_loss(self, at: Situation, requests: tuple[str, ...], decision: Decision) -> str:
        """Words for requests that neither tools nor knowledge answer."""
        if not at.subject:
            return self._talk(at, decision)
        if not any(request in at.talk.text for request in requests):  # an older one: let the customer say it anew
            return at.say("help")
        return _lines(at.say("unknown"), self._offer_transfer(at, decision) or self._offer_person(at))

    def _told(self, at: Situation, outcome: Outcome) -> str:
        if isinstance(outcome, Done):
            return outcome.text or at.say("tool_empty")
        if isinstance(outcome, Quoted):
            return at.say("quote", text=outcome.quote.text, source=outcome.quote.source)
        return at.say("unknown") if isinstance(outcome, Unknown) else ""

    def _closing(self, at: Situation, outcomes: list[Outcome], decision: Decision) -> str:
        """What is still needed, or an offer: a person when nothing is known, the way to an open question."""
        missing = next((outcome for outcome in outcomes if isinstance(outcome, Missing)), None)
        if missing:
            return at.say("slot", what=wanted(missing.slot, at.language))
        offer = self._offer_transfer(at, decision)
        if offer:
            return offer
        return self._offer_person(at) if any(isinstance(outcome, Unknown) for outcome in outcomes) else ""

    def _offer_transfer(self, at: Situation, decision: Decision) -> str:
        """Mention one question that is for somebody else, once, with the offer to pass the customer on."""
        told = at.talk.notes[-1].open_questions if at.talk.notes else ()
        said = "\n".join(e.text for e in at.talk.past if e.speaker == "agent")
        for question in (*decision.open_questions, *told):
            match = self.classifier.match([question])[0] if self.classifier else None
            foreign = match is not None and belongs_elsewhere(match, self.floor, at.subject, at.desk.start)
            if match and foreign and at.reachable(match.best) and question not in said:
                return at.say("offer_transfer", question=question, name=at.name(match.best))
        return ""

    def _offer_person(self, at: Situation) -> str:
        return at.say("offer_person") if at.person() else ""

    def _talk(self, at: Situation, decision: Decision) -> str:
        if decision.rule is Rule.EMPTY:
            return at.say("empty")
        if decision.rule is Rule.ASK:
            names = [at.name(agent) for agent in decision.options if at.reachable(agent) == agent]
            if len(names) == 2:
                return at.say("ask", a=names[0], b=names[1])
        if decision.rule is Rule.SMALL_TALK:
            return self._small_talk(at)
        if decision.rule is Rule.OWN:  # a value or the agent's own name, and nothing that it could be about
            return at.say("help")
        return self._lost(at)

    def _lost(self, at: Situation) -> str:
        if at.subject:
            return _lines(at.say("unknown"), self._offer_person(at))
        return _lines(at.say("stay"), at.topics())

    def _small_talk(self, at: Situation) -> str:
        parts = [reading.whole for reading in self._read(at, at.talk.messages)]
        if self._gave_value(at):  # and there is nothing that it could be about
            return at.say("help")
        kinds = {part.remark.kind for part in parts if part.remark.similarity >= SURE_TALK}
        if not (at.talk.past or at.talk.notes):  # nobody takes leave with the first words
            kinds = {"greeting" if kind == "bye" else kind for kind in kinds}
        kind = next((kind for kind in TALK if kind in kinds), "")
        if not kind:
            return self._lost(at)
        key = "greeting" if kind == "mood" else kind
        return _lines(at.say(key), at.topics() if key in ("greeting", "help") and not at.subject else "")


def last_question(said: str) -> str:
    """The question of a tool that an answer ended with ("Would you like me to ...?"); empty when it ended otherwise.

    The model's own questions ("Is there anything else?") are not a tool's.
    """
    sentences = split(said)
    last = sentences[-1].text if sentences else ""
    return last if last.endswith(("?", "？")) and not is_own(last) else ""


def _lines(*texts: str) -> str:
    """The non-empty texts, as one message."""
    return "\n".join(text for text in texts if text)
