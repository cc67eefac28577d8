"""An agent's knowledge: Markdown files cut at their headings, searched by meaning and by words.

Ranking is cosine + 0.5 BM25, both as z-scores over the agent's passages (DSTC9: right passage first for .848 of the
questions, .784 by cosine alone, .693 by BM25 alone). Without an encoder BM25 ranks alone.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from handoffs.encoder import Encoder

BM25_WEIGHT = 0.5
SAME_SCRIPT = 1.0  # z-scores: a passage that the asker can read goes before an equally near translation
MAX_PASSAGE_CHARS = 1_200  # a longer section is cut between paragraphs: a model has to read what it gets
MAX_QUERY_CHARS = 1_000
BM25_HALF = 4.0  # the BM25 score that counts as .5 when there is no encoder
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
_FENCE = re.compile(r"^\s*(```|~~~)")
_RUN = re.compile(r"[\u3400-\u9fff]+|[^\W_\u3400-\u9fff]+")
_HAN = re.compile(r"[\u3400-\u9fff]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Passage:
    """A section of a knowledge file. `source` is what an answer quotes: `billing/refunds.md#Refund times`."""

    source: str
    heading: str
    text: str

    @property
    def indexed(self) -> str:
        """What is searched: the heading belongs to the words."""
        return f"{self.heading}\n{self.text}"


@dataclass(frozen=True)
class Hit:
    """A passage found. `score` is 0..1: the cosine of the query to the passage, or BM25 squeezed into that range."""

    passage: Passage
    score: float

    @property
    def source(self) -> str:
        return self.passage.source

    @property
    def text(self) -> str:
        return self.passage.text


def load_passages(folder: Path) -> list[Passage]:
    """The passages of all Markdown files below `agents/<id>/knowledge/`, in name order; [] without such a folder.

    Raises UnicodeDecodeError for a file that is not UTF-8.
    """
    if not folder.is_dir():
        return []
    passages: list[Passage] = []
    for path in sorted(folder.rglob("*.md")):
        name = f"{folder.parent.name}/{path.relative_to(folder).as_posix()}"
        passages += split(name, path.read_text(encoding="utf-8-sig"))
    return passages


def split(name: str, markdown: str) -> list[Passage]:
    """Cut one file at its headings. A section under no text of its own gives no passage."""
    passages: list[Passage] = []
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    fenced = False

    def close() -> None:
        title = " > ".join(text for level, text in path if level > 1) or (path[0][1] if path else "")
        for piece in _pieces("\n".join(lines).strip()):
            leaf = path[-1][1] if path else ""
            passages.append(Passage(f"{name}#{leaf}" if leaf else name, title, piece))
        lines.clear()

    for line in markdown.splitlines():
        fenced ^= bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.match(line)
        if heading:
            close()
            level = len(heading[1])
            path = [entry for entry in path if entry[0] < level] + [(level, heading[2])]
        else:
            lines.append(line)
    close()
    return passages


def _pieces(text: str) -> list[str]:
    """A section's text in pieces of at most MAX_PASSAGE_CHARS, cut between paragraphs, never inside one."""
    pieces: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        if pieces and len(pieces[-1]) + len(paragraph) + 2 <= MAX_PASSAGE_CHARS:
            pieces[-1] += "\n\n" + paragraph
        elif paragraph.strip():
            pieces.append(paragraph.strip())
    return pieces


class Knowledge:
    """A searchable set of passages. Indexed on the first search; `search` may run in several threads."""

    def __init__(self, passages: Sequence[Passage], encoder: Encoder | None = None) -> None:
        self.passages = tuple(passages)
        self._encoder = encoder
        self._lock = threading.Lock()
        self._index: _Index | None = None

    def search(self, query: str, k: int = 3) -> list[Hit]:
        """The `k` best passages, best first; [] for a blank query. CPU-bound, about 3 ms: call it in a thread."""
        query = query.strip()[:MAX_QUERY_CHARS]
        if not query or not self.passages or k < 1:
            return []
        with self._lock:
            self._index = self._index or _Index(self.passages, self._encoder)
        words = self._index.words(query)
        if self._encoder is None:
            return self._best(words, words / (words + BM25_HALF), k, above=0.0)
        meaning = self._index.meaning(query, self._encoder)
        ranking = _standard(meaning) + BM25_WEIGHT * _standard(words) + SAME_SCRIPT * self._index.readable(query)
        return self._best(ranking, meaning, k)

    def _best(self, ranking: Scores, scores: Scores, k: int, above: float = -1.0) -> list[Hit]:
        order = [int(row) for row in np.argsort(-ranking, kind="stable")[:k] if scores[row] > above]
        return [Hit(self.passages[row], float(np.clip(scores[row], 0.0, 1.0))) for row in order]


class _Index:
    """BM25 over the words of all passages, and vectors of each passage and of each of its sentences."""

    def __init__(self, passages: Sequence[Passage], encoder: Encoder | None) -> None:
        import bm25s  # type: ignore[import-untyped]  # carries no types; half a second to import, only needed here

        self._size = len(passages)
        self._chinese = np.array([bool(_HAN.search(passage.text)) for passage in passages])
        self._bm25: Any = bm25s.BM25()
        tokens = [words(passage.indexed) or ["-"] for passage in passages]  # bm25s divides by the mean length
        self._bm25.index(tokens, show_progress=False)
        texts = [(row, text) for row, passage in enumerate(passages) for text in _views(passage)]
        self._rows = np.array([row for row, _ in texts])
        self._vectors = encoder.encode([text for _, text in texts]) if encoder else None

    def readable(self, query: str) -> Scores:
        """1 for each passage in the query's script, else 0; shape (passages,)."""
        return np.asarray(self._chinese == bool(_HAN.search(query)), dtype=np.float64)

    def words(self, query: str) -> Scores:
        """BM25 of each passage, shape (passages,); zeros when no word is known."""
        known = self._bm25.get_tokens_ids(words(query))
        if not known:
            return np.zeros(self._size)
        return np.asarray(self._bm25.get_scores_from_ids(known), dtype=np.float64)

    def meaning(self, query: str, encoder: Encoder) -> Scores:
        """Cosine of the query to each passage, or to its nearest sentence when that is nearer; shape (passages,)."""
        best = np.full(self._size, -1.0)
        if self._vectors is not None:
            np.maximum.at(best, self._rows, self._vectors @ encoder.encode([query])[0])
        return best


def _views(passage: Passage) -> list[str]:
    sentences = [part.strip() for part in _SENTENCE.split(passage.text)]
    return [passage.indexed, passage.heading or passage.text, *(part for part in sentences if len(part) > 10)]


def words(text: str) -> list[str]:
    """Tokens for BM25: lower-case words without a plural s; Chinese as overlapping pairs of characters."""
    tokens: list[str] = []
    for run in _RUN.findall(unicodedata.normalize("NFKC", text).lower()):
        if "\u3400" <= run[0] <= "\u9fff":
            tokens += [run[k : k + 2] for k in range(len(run) - 1)] or [run]
        else:
            tokens.append(run[:-1] if len(run) > 3 and run.endswith("s") and not run.endswith("ss") else run)
    return tokens


def _standard(values: Scores) -> Scores:
    """z-scores; zeros when all values are equal."""
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 1e-9 else np.zeros_like(values)
