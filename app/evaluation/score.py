"""What the owners of played conversations are worth. Pure; the metrics are those of research/data-and-style.md, A4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.evaluation.dataset import START, Message, Played
from app.evaluation.play import Outcome

PING_PONG_TURNS = 2  # A-B-A within this many customer messages


@dataclass(frozen=True)
class Scored:
    """One scored customer message: who should own, who does, who did before."""

    message: Message
    owner: str
    before: str
    answer: str

    @property
    def right(self) -> bool:
        return self.owner == self.message.owner

    @property
    def moved(self) -> bool:
        return self.owner != self.before


@dataclass(frozen=True)
class Ratio:
    """A count of a total; `value` is None when the total is 0."""

    hits: int
    total: int

    @property
    def value(self) -> float | None:
        return self.hits / self.total if self.total else None


def ratio(flags: Iterable[bool]) -> Ratio:
    found = list(flags)
    return Ratio(sum(found), len(found))


def turns_of(played: Played, outcomes: Sequence[Outcome]) -> list[Scored]:
    """The scored messages of one conversation."""
    before = START
    scored = []
    for message, outcome in zip(played.messages, outcomes, strict=True):
        if message.owner is not None:
            scored.append(Scored(message, outcome.owner, before, outcome.answer))
        before = outcome.owner
    return scored


def message_metrics(turns: Sequence[Scored], asked: Sequence[bool], offered: Sequence[bool]) -> dict[str, Ratio]:
    """For single messages. `asked`: the answer was "is it A or B?"; `offered`: the right one was among the two."""
    known = [k for k, turn in enumerate(turns) if turn.message.owner != START]
    foreign = [turn for turn in turns if turn.message.owner == START]
    sent = [turns[k] for k in known if turns[k].moved]
    in_doubt = [k for k in known if asked[k]]
    return {
        "in scope: sent to the right agent": ratio(turns[k].right for k in known),
        "in scope: sent to some agent": ratio(turns[k].moved for k in known),
        "sent: right": ratio(turn.right for turn in sent),
        "in scope: asked A or B": ratio(asked[k] for k in known),
        "asked: right one offered": ratio(offered[k] for k in in_doubt),
        "in scope: kept without a question": ratio(not turns[k].moved and not asked[k] for k in known),
        "out of scope: wrongly sent": ratio(turn.moved for turn in foreign),
    }


def dialogue_metrics(dialogues: Sequence[Sequence[Scored]]) -> dict[str, Ratio]:
    """For whole conversations: owners per turn, dialogues without a mistake, handoffs (right turn and right target)."""
    turns = [turn for dialogue in dialogues for turn in dialogue]
    wanted = [turn for turn in turns if turn.message.handoff]
    moved = [turn for turn in turns if turn.moved]
    stay = [turn for turn in turns if not turn.message.handoff]
    hit = [turn for turn in moved if turn.message.handoff and turn.right]
    kinds = {kind: [t for t in wanted if t.message.handoff == kind] for kind in ("start", "switch", "return")}
    return {
        "owner right, per customer turn": ratio(turn.right for turn in turns),
        "dialogue without a wrong owner": ratio(all(t.right for t in dialogue) for dialogue in dialogues if dialogue),
        "handoff precision": Ratio(len(hit), len(moved)),
        "handoff recall": Ratio(len(hit), len(wanted)),
        **{f"handoff recall: {kind}": ratio(t.moved and t.right for t in some) for kind, some in kinds.items()},
        "spurious handoffs per stay-turn": ratio(turn.moved for turn in stay),
        "of them late corrections": ratio(turn.right for turn in stay if turn.moved),
        "ping-pong per dialogue": ratio(has_ping_pong(dialogue) for dialogue in dialogues if dialogue),
    }


def has_ping_pong(turns: Sequence[Scored]) -> bool:
    """Whether an agent got a conversation back within two customer messages though nothing asked for that."""
    owners = [turns[0].before, *(turn.owner for turn in turns)] if turns else []
    for k, owner in enumerate(owners):
        for gap in range(2, PING_PONG_TURNS + 1):
            back = k + gap
            if back < len(owners) and owners[back] == owner and any(o != owner for o in owners[k + 1 : back]):
                wanted = any(turn.message.handoff for turn in turns[k:back])
                if not wanted:
                    return True
    return False


def confusion(turns: Iterable[Scored]) -> dict[str, dict[str, int]]:
    """Right owner -> owner after the message -> count."""
    counts: dict[str, Counter[str]] = {}
    for turn in turns:
        counts.setdefault(str(turn.message.owner), Counter())[turn.owner] += 1
    return {owner: dict(counts[owner].most_common()) for owner in sorted(counts)}
