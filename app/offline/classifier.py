"""Which agent's subject is this text? Fitted on the agents' own words, in well under a second."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.offline.ngrams import NgramSpace
from app.offline.sentences import language_of
from app.offline.softmax import Floats, fit_dual, log_softmax, softmax
from handoffs.encoder import Encoder, Vectors

NEAREST_WEIGHT = 12.0  # of the mean of the three best cosines, beside log-probabilities
NEAREST_COUNT = 3
LEXICAL_WEIGHT = 1.0  # research: +0.5 to +2.7 points with examples
LEXICAL_WEIGHT_BARE = 0.5  # without examples the full weight costs 0.6 points on CLINC150
FLOOR_FEW = 0.28  # below five examples an agent a percentile says nothing
FLOOR_PERCENTILE = 10
FEW_EXAMPLES = 5
_CLAUSE = re.compile(r"[,;:.!?()/、，；：。！？（）\n]|\s(?:and|or)\s", re.IGNORECASE)


@dataclass(frozen=True)
class Subject:
    """What an agent is for, in its own file's words: `intended_use` (in each language it has) and real phrasings."""

    agent_id: str
    intended_use: tuple[str, ...]
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Match:
    """How one text compares with every subject. All maps are keyed by agent id; probabilities add up to 1."""

    text: str
    probabilities: Mapping[str, float]
    similarities: Mapping[str, float]  # cosine to the nearest prototype of that agent
    nearest: Mapping[str, str]  # that prototype's text

    def ranked(self) -> list[str]:
        """Agent ids, most probable first."""
        return sorted(self.probabilities, key=lambda agent: -self.probabilities[agent])

    @property
    def best(self) -> str:
        return self.ranked()[0]

    @property
    def margin(self) -> float:
        """p1 - p2; 1 when there is one subject only."""
        first, *rest = (self.probabilities[agent] for agent in self.ranked())
        return first - rest[0] if rest else 1.0

    @property
    def similarity(self) -> float:
        """Of the nearest prototype of any agent: what says whether the text is in scope at all."""
        return max(self.similarities.values())


@dataclass(frozen=True)
class Classifier:
    """Prototypes of all subjects with the two fitted heads. Immutable; `match` may run in several threads."""

    agents: tuple[str, ...]
    texts: tuple[str, ...]
    labels: NDArray[np.intp]
    vectors: Vectors
    meaning: Floats  # (512, agents)
    spelling: Floats  # (BUCKETS, agents)
    space: NgramSpace
    lexical_weight: float
    floor: float
    encoder: Encoder

    @classmethod
    def fit(cls, subjects: Sequence[Subject], encoder: Encoder) -> Classifier | None:
        """Fit on clauses of `intended_use` + examples; None when no subject says anything."""
        rows = [(s.agent_id, text) for s in subjects for text in prototypes(s)]
        if not rows:
            return None
        agents = tuple(dict.fromkeys(agent for agent, _ in rows))
        labels = np.array([agents.index(agent) for agent, _ in rows], dtype=np.intp)
        texts = tuple(text for _, text in rows)
        vectors = encoder.encode(texts)
        space = NgramSpace.fit(texts)
        dense = space.dense(texts)
        rich = sum(len(s.examples) for s in subjects) >= FEW_EXAMPLES * len(agents)
        has_examples = any(s.examples for s in subjects)
        return cls(
            agents=agents,
            texts=texts,
            labels=labels,
            vectors=vectors,
            meaning=vectors.T @ fit_dual(vectors @ vectors.T, labels, len(agents)),
            spelling=dense.T @ fit_dual(dense @ dense.T, labels, len(agents)),
            space=space,
            lexical_weight=LEXICAL_WEIGHT if has_examples else LEXICAL_WEIGHT_BARE,
            floor=_floor(vectors, texts, {e.strip() for s in subjects for e in s.examples}) if rich else FLOOR_FEW,
            encoder=encoder,
        )

    def match(self, texts: Sequence[str]) -> list[Match]:
        """Compare each text with every subject. CPU-bound, about 3 ms a text."""
        if not texts:
            return []
        vectors = self.encoder.encode(texts)
        cosines = vectors @ self.vectors.T
        probabilities = softmax(self._scores(texts, vectors, cosines))
        return [self._match(text, p, c) for text, p, c in zip(texts, probabilities, cosines, strict=True)]

    def _scores(self, texts: Sequence[str], vectors: Vectors, cosines: Floats) -> Floats:
        spelled = np.stack([self._spell(text) for text in texts])
        near = np.stack([_mean_of_best(cosines[:, self.labels == k]) for k in range(len(self.agents))], axis=1)
        total = log_softmax(vectors @ self.meaning) + self.lexical_weight * log_softmax(spelled)
        return np.asarray(total + NEAREST_WEIGHT * near, dtype=np.float32)

    def _spell(self, text: str) -> Floats:
        buckets, weights = self.space.vector(text)
        return np.asarray(weights @ self.spelling[buckets], dtype=np.float32)

    def _match(self, text: str, probabilities: Floats, cosines: Floats) -> Match:
        nearest = {agent: self._nearest(k, cosines) for k, agent in enumerate(self.agents)}
        return Match(
            text=text,
            probabilities={agent: float(p) for agent, p in zip(self.agents, probabilities, strict=True)},
            similarities={agent: float(cosines[row]) for agent, row in nearest.items()},
            nearest={agent: self.texts[row] for agent, row in nearest.items()},
        )

    def _nearest(self, label: int, cosines: Floats) -> int:
        rows = np.flatnonzero(self.labels == label)
        return int(rows[np.argmax(cosines[rows])])


def prototypes(subject: Subject) -> list[str]:
    """The texts that stand for a subject: its use, each clause of it, its examples; no text twice."""
    clauses = [part for use in subject.intended_use for part in (use, *_CLAUSE.split(use))]
    texts = [text.strip() for text in (*clauses, *subject.examples)]
    return list(dict.fromkeys(text for text in texts if len(text) > 1))


def _mean_of_best(cosines: Floats) -> Floats:
    """Mean of each row's three best values (of all, when there are fewer)."""
    count = min(NEAREST_COUNT, cosines.shape[1])
    return np.asarray(np.sort(cosines, axis=1)[:, -count:].mean(axis=1), dtype=np.float32)


def _floor(vectors: Vectors, texts: Sequence[str], examples: Collection[str]) -> float:
    """10th percentile of each example's similarity to its nearest other prototype in the same script.

    A translation of an example is very near to it: counting it would put the floor where no real message comes.
    """
    chinese = np.array([language_of(text) == "zh" for text in texts])
    cosines = np.where(chinese[:, None] == chinese[None, :], vectors @ vectors.T, -1.0)
    np.fill_diagonal(cosines, -1.0)
    rows = [row for row, text in enumerate(texts) if text in examples]
    return float(np.percentile(cosines[rows].max(axis=1), FLOOR_PERCENTILE))
