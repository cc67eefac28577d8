"""Answers to the model's own questions ("is it A or B?", "shall I pass you to X?"), read back from its last words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.offline.remarks import Remark, plain
from app.offline.situation import Situation
from app.offline.texts import LANGUAGES, find

ANSWER_WORDS, ANSWER_CHARS = 6, 60  # a longer message is a new request, whatever it starts with


class Kind(StrEnum):
    """What a short message answers."""

    CHOSE = "chose"  # one of two agents; `value` is its target
    NEITHER = "neither"
    WANTS_PERSON = "wants_person"
    WANTS_PASS = "wants_pass"  # noqa: S105 - to be passed on, with the question in `value`
    DECLINED = "declined"


@dataclass(frozen=True)
class FollowUp:
    """What the customer's message means as an answer to the model's last question."""

    kind: Kind
    value: str = ""


def is_short(text: str) -> bool:
    """Whether a message may be an answer to a question; blank text may not."""
    return 0 < len(text.split()) <= ANSWER_WORDS and len(text) <= ANSWER_CHARS


def follow_up(at: Situation, remark: Remark | None) -> FollowUp | None:
    """The meaning of this turn's message as an answer; None when it is none. `remark` is that of the whole message."""
    said, text = at.talk.last_reply, at.talk.text
    if not said or not is_short(text):
        return None
    asked = find("ask", said)
    if asked:
        return _choice(at, asked["a"], asked["b"], text)
    kind = remark.kind if remark and (remark.exact or remark.similarity > 0.8) else ""
    offered = find("offer_transfer", said)
    if offered and kind in ("yes", "no"):
        return FollowUp(Kind.WANTS_PASS, offered["question"]) if kind == "yes" else FollowUp(Kind.DECLINED)
    if find("offer_person", said) is not None and kind in ("yes", "no"):
        return FollowUp(Kind.WANTS_PERSON if kind == "yes" else Kind.DECLINED)
    return None


def _choice(at: Situation, a: str, b: str, text: str) -> FollowUp | None:
    """Which of the two asked-about agents a message picks, by name or by place."""
    words = plain(text)
    targets = {plain(at.desk.name(t, code)): t for t in at.tools.agents for code in LANGUAGES}
    options = (targets.get(plain(a)), targets.get(plain(b)))
    named = at.desk.named_in(text, [option for option in options if option])
    if named:
        return FollowUp(Kind.CHOSE, named)
    for wording in LANGUAGES.values():
        if words in wording.NEITHER:
            return FollowUp(Kind.NEITHER)
        for place, option in zip((wording.FIRST, wording.SECOND), options, strict=True):
            if words in place and option:
                return FollowUp(Kind.CHOSE, option)
    return None
