"""Who should answer this turn? Pure rules over readings; every decision carries the whole trace of why.

The rules (research/offline-model.md, 4c and 4d): a sentence is in scope when it is near enough to some agent's words
(`floor`); it is certain when the best agent leads the second by `MARGIN`. Nothing here understands negation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.offline.classifier import Match
from app.offline.reading import Part, Reading

MARGIN = 0.25  # p1 - p2 of a sentence that is routed without asking
CLAUSE_MARGIN = 0.5  # of two different subjects in one message; lower splits single wishes in two
CLAUSE_LEAD = 0.06  # above the floor, for the same reason
STICKY_MARGIN = 0.7  # p(other) - p(self) before a specialist lets go; .6 to .8 score alike (SGD, example half)
STICKY_LEAD = 0.05  # cosine(other) - cosine(self), likewise
STICKY_FLOOR = 0.85  # of the floor: the great lead makes up for it
OWN_PROBABILITY = 0.5  # of a sentence that holds a conversation although another one is foreign


class Rule(StrEnum):
    """What was decided."""

    TRANSFER = "transfer"  # to `target`
    HUMAN = "human"  # the customer wants a person
    ASK = "ask"  # one of the two `options`
    STAY = "stay"  # nothing in the message says who could help
    OWN = "own"  # the agent's own subject: answer it
    SMALL_TALK = "small_talk"  # greetings, thanks, yes and no
    EMPTY = "empty"  # no words at all


@dataclass(frozen=True)
class Trace:
    """Why one sentence counted as it did. Probabilities by agent id."""

    text: str
    kind: str  # request, small talk, human or slot
    agent: str = ""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    similarity: float = 0.0
    nearest: str = ""
    floor: float = 0.0


@dataclass(frozen=True)
class Decision:
    """The rule that fired. `text` is the customer's sentence that decided; `target` an agent id."""

    rule: Rule
    target: str = ""
    text: str = ""
    requests: tuple[str, ...] = ()  # what the deciding agent should answer itself, when it keeps the conversation
    options: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    trace: tuple[Trace, ...] = ()


def decide(readings: Sequence[Reading], floor: float, me: str = "", home: str = "") -> Decision:
    """The decision for one turn. `me` is the deciding agent when it is a specialist, empty for triage.

    `home` is the start agent: what is its subject (by its examples: greetings, unspecific calls for help) goes nowhere.
    """
    parts = significant(readings, floor)
    trace = tuple(_trace(reading.whole, floor) for reading in readings)
    if not readings:
        return Decision(Rule.EMPTY)
    wish = next((part for part in parts if part.is_human_wish), None)
    requests = [part for part in parts if part.is_request]
    if wish is not None:
        topic = next((_best(p) for p in requests if p.match and in_scope(p.match, floor) and _best(p) != home), "")
        others = tuple(part.text for part in requests)
        return Decision(Rule.HUMAN, target=topic, text=wish.text, open_questions=others, trace=trace)
    if not requests:
        rule = Rule.OWN if any(part.slot_only for part in parts) and me else Rule.SMALL_TALK
        return Decision(rule, text=parts[0].text if parts else "", trace=trace)
    found = _keep_or_move(requests, floor, me, home) if me else _triage(requests, floor, home)
    return replace(found, trace=trace)


def significant(readings: Sequence[Reading], floor: float) -> list[Part]:
    """The parts that count, in reading order: a sentence, or its clauses when those are about different things."""
    parts: list[Part] = []
    for reading in readings:
        sure = [part for part in reading.clauses if part.is_request and _surely(part, floor)]
        differ = len({part.match.best for part in sure if part.match}) > 1
        wishes = [part for part in reading.clauses if part.is_human_wish]
        if differ or (wishes and not reading.whole.is_human_wish):
            parts += [*sure, *wishes]
        elif not reading.whole.is_request and any(
            part.is_request and _certain(part, floor) for part in reading.clauses
        ):
            parts += [part for part in reading.clauses if part.is_request or part.is_human_wish]
        else:
            parts.append(_clearer(reading, floor))
    return parts


def in_scope(match: Match, floor: float) -> bool:
    """Whether the text is near enough to anything that some agent is for."""
    return match.similarity >= floor


def _triage(requests: Sequence[Part], floor: float, home: str) -> Decision:
    """Transfer, ask which of two, or stay."""
    known = [part for part in requests if part.match and in_scope(part.match, floor) and _best(part) != home]
    certain = [part for part in known if _certain(part, floor)]
    if certain:
        sure = [part for part in certain if _surely(part, floor) or part.text.endswith(("?", "？"))]
        several = len({_best(part) for part in sure}) > 1
        first = sure[0] if several else max(certain, key=_similarity)
        open_questions = tuple(part.text for part in sure if _best(part) != _best(first)) if several else ()
        return Decision(Rule.TRANSFER, _best(first), first.text, open_questions=open_questions)
    if known:
        nearest = max(known, key=_similarity)
        match = nearest.match
        options = tuple(agent for agent in match.ranked() if agent != home)[:2] if match else ()
        return Decision(Rule.ASK, text=nearest.text, requests=(nearest.text,), options=options)
    return Decision(Rule.STAY, text=requests[0].text, requests=tuple(part.text for part in requests))


def _keep_or_move(requests: Sequence[Part], floor: float, me: str, home: str) -> Decision:
    """Keep the conversation unless something asked is clearly another agent's subject and nothing is clearly one's own.

    Remarks that say nothing by themselves ("that sounds perfect", "maybe later") neither hold nor move it.
    """
    foreign = [part for part in requests if belongs_elsewhere(part.match, floor, me, home)]
    mine = [part for part in requests if part not in foreign]
    if foreign and not any(_is_own(part, floor, me) for part in mine):
        first = foreign[0]
        rest = tuple(part.text for part in foreign if _best(part) != _best(first))
        return Decision(Rule.TRANSFER, _best(first), first.text, open_questions=rest)
    own = tuple(part.text for part in mine)
    return Decision(Rule.OWN, me, own[0], own, open_questions=tuple(part.text for part in foreign))


def belongs_elsewhere(match: Match | None, floor: float, me: str, home: str = "") -> bool:
    """Whether a text is so clearly another agent's subject that a specialist lets the conversation go."""
    if match is None or match.best in (me, home) or not in_scope(match, floor * STICKY_FLOOR):
        return False
    lead = match.probabilities[match.best] - match.probabilities.get(me, 0.0)
    closer = match.similarities[match.best] - match.similarities.get(me, 0.0)
    return lead >= STICKY_MARGIN and closer >= STICKY_LEAD


def _is_own(part: Part, floor: float, me: str) -> bool:
    """Whether a text is so clearly the agent's own subject that it holds the conversation."""
    match = part.match
    return match is None or (match.best == me and in_scope(match, floor) and match.probabilities[me] >= OWN_PROBABILITY)


def _certain(part: Part, floor: float) -> bool:
    return part.match is not None and in_scope(part.match, floor) and part.match.margin >= MARGIN


def _surely(part: Part, floor: float) -> bool:
    sure = part.match is not None and part.match.margin >= CLAUSE_MARGIN
    return sure and _similarity(part) >= floor + CLAUSE_LEAD


def _clearer(reading: Reading, floor: float) -> Part:
    """The sentence, unless it is out of scope and one of its clauses is not."""
    if _certain(reading.whole, floor) or not reading.whole.is_request:
        return reading.whole
    clear = [part for part in reading.clauses if part.is_request and _certain(part, floor)]
    return max(clear, key=_similarity, default=reading.whole)


def _best(part: Part) -> str:
    return part.match.best if part.match else ""


def _similarity(part: Part) -> float:
    return part.match.similarity if part.match else 0.0


def _trace(part: Part, floor: float) -> Trace:
    kind = "human" if part.is_human_wish else "small talk" if part.is_small_talk else "request"
    kind = "slot" if kind == "request" and part.slot_only else kind
    if part.match is None:
        return Trace(part.text, kind, floor=floor)
    match = part.match
    return Trace(part.text, kind, match.best, match.probabilities, match.similarity, match.nearest[match.best], floor)
