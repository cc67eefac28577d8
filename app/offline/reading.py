"""One turn's messages, sentence by sentence, with what each of them is about. The only place that runs the encoder
for routing; what follows from a reading is decided in `decision` without it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.offline.classifier import Classifier, Match
from app.offline.remarks import BYE, HUMAN, SHORT_WORDS, Remark, Remarks
from app.offline.sentences import Sentence, split
from app.offline.slots import Slot, find, without, without_references
from app.offline.texts import LANGUAGES, wishes_human

HUMAN_SIMILARITY = 0.65  # of a sentence to a listed wish for a human; see docs/explanation/routing-quality.md
SMALL_TALK_LEAD = 0.0  # small talk wins as soon as it is nearer than any agent's subject
SMALL_TALK_SIMILARITY = 0.45  # below this a text is like nothing at all
FAREWELL_SIMILARITY = 0.75  # of a short text; "nothing works" is at 0.67 of "nothing else"
_RUNS = re.compile(r"[\u3400-\u9fff]+|[^\W_\u3400-\u9fff][\w'@.-]*")


@dataclass(frozen=True)
class Part:
    """A sentence or a clause. `match` is None when no agent of the desk says what it is for."""

    text: str
    remark: Remark
    match: Match | None
    slot_only: bool = False

    @property
    def is_human_wish(self) -> bool:
        """Whether the customer asks for a person here."""
        if self.remark.kind == HUMAN and (self.remark.exact or self.remark.similarity >= HUMAN_SIMILARITY):
            return self.match is None or self.remark.similarity > self.match.similarity
        return wishes_human(self.text)

    @property
    def is_small_talk(self) -> bool:
        """Greetings, thanks, yes, no: nearer to those than to any agent's subject, or one of them word for word."""
        if self.remark.exact:
            return True
        nearest = self.match.similarity if self.match else SMALL_TALK_SIMILARITY
        short = len(self.text.split()) <= SHORT_WORDS or self.remark.kind not in ("yes", "no", BYE)
        least = FAREWELL_SIMILARITY if self.remark.kind == BYE else SMALL_TALK_SIMILARITY
        near = self.remark.similarity >= max(least, nearest + SMALL_TALK_LEAD)
        return near and short and self.remark.kind != HUMAN

    @property
    def is_request(self) -> bool:
        """Whether the text can decide where the conversation goes."""
        return not (self.is_small_talk or self.is_human_wish or self.slot_only)


@dataclass(frozen=True)
class Reading:
    """A sentence and its clauses (none when it has only one)."""

    whole: Part
    clauses: tuple[Part, ...] = ()


def read_messages(
    messages: Sequence[str], classifier: Classifier | None, remarks: Remarks, slots: Sequence[Slot] = ()
) -> tuple[Reading, ...]:
    """Readings of all messages in order. `slots` are those of the agent's tools: a bare value is no new request."""
    sentences = [sentence for message in messages for sentence in split(message)]
    texts = list(dict.fromkeys(text for s in sentences for text in (s.text, *s.clauses)))
    bare = [without_references(text) for text in texts]
    matches = classifier.match(bare) if classifier else [None] * len(texts)
    parts: Mapping[str, Part] = {
        text: Part(text, remark, match, is_slot_only(text, slots))
        for text, remark, match in zip(texts, remarks.of(bare), matches, strict=True)
    }
    return tuple(_reading(sentence, parts) for sentence in sentences)


def _reading(sentence: Sentence, parts: Mapping[str, Part]) -> Reading:
    return Reading(parts[sentence.text], tuple(parts[text] for text in sentence.clauses))


def is_slot_only(text: str, slots: Sequence[Slot]) -> bool:
    """Whether a text gives slot values (order number, e-mail, digits) and says nothing else."""
    rest = text
    found = False
    for slot in slots:
        if not slot.options and find(slot, [text]) is not None:
            found = True
            rest = without(slot, rest)
    words = [word for word in _words(rest) if not any(c.isdigit() for c in word)]
    fillers = {word for wording in LANGUAGES.values() for word in wording.FILLERS}
    described = {word for slot in slots for word in _words(slot.description)}
    found = found or any(c.isdigit() for c in text)
    return found and all(word in fillers or word in described for word in words)


def _words(text: str) -> list[str]:
    """Lower-case words; a run of Chinese characters is cut by the fillers' own words, longest first."""
    words: list[str] = []
    for run in _RUNS.findall(text.lower()):
        words += _cut(run) if "\u3400" <= run[0] <= "\u9fff" else [run]
    return words


def _cut(run: str) -> list[str]:
    known = LANGUAGES["zh"].FILLERS
    words = []
    while run:
        size = next((n for n in (3, 2) if run[:n] in known), 1)
        words.append(run[:size])
        run = run[size:]
    return words
