"""Which queue of people is a message's subject? Read from the queues' own `intended_use` ("for complaints, ...").

Queues are no subjects of the classifier: two lines about people would blur the agents'. A queue is chosen only for a
word that no agent's text has, and only when that leaves it nearer than every agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.offline.classifier import Subject, prototypes
from app.offline.reading import Part
from handoffs.encoder import Encoder, Vectors

WORD_BONUS = 0.15  # added to the cosine of a text that has a word of the queue's own
_WORD = re.compile(r"[a-z]{5,}")
_HAN = re.compile(r"[\u3400-\u9fff]+")
_STEM = 6  # letters that "complain", "complaint" and "complaints" share


@dataclass(frozen=True)
class Queues:
    """The prototypes and the own words of each queue, by target (`human:support`)."""

    vectors: Mapping[str, Vectors]
    words: Mapping[str, frozenset[str]]
    encoder: Encoder

    @classmethod
    def fit(cls, queues: Sequence[Subject], agents: Sequence[Subject], encoder: Encoder) -> Queues:
        """Encode the queues' clauses and keep the words that no agent has."""
        common = words_of(text for agent in agents for text in prototypes(agent))
        texts = {queue.agent_id: prototypes(queue) for queue in queues}
        return cls(
            vectors={target: encoder.encode(found) for target, found in texts.items() if found},
            words={target: words_of(found) - common for target, found in texts.items()},
            encoder=encoder,
        )

    def target_of(self, parts: Sequence[Part], targets: Sequence[str], floor: float) -> tuple[str, Part] | None:
        """The allowed queue that is the subject of a part, with that part; None when agents are nearer."""
        for part in parts:
            own = words_of([part.text])
            named = [t for t in targets if t in self.vectors and own & self.words[t]]
            if not named or part.remark.exact or part.slot_only:
                continue
            vector = self.encoder.encode([part.text])[0]
            scores = {t: float((self.vectors[t] @ vector).max()) + WORD_BONUS for t in named}
            best = max(scores, key=lambda target: scores[target])
            if scores[best] > max(floor, part.match.similarity if part.match else 0.0, part.remark.similarity):
                return best, part
        return None


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """English word stems and pairs of neighbouring Chinese characters, for comparing texts by what they name."""
    words: set[str] = set()
    for text in texts:
        words.update(word[:_STEM] for word in _WORD.findall(text.lower()))
        words.update(run[k : k + 2] for run in _HAN.findall(text) for k in range(len(run) - 1))
    return frozenset(words)
