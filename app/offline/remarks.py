"""What people say besides a subject: greetings, thanks, yes and no, a wish for a human. None of it is routed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.offline.texts import LANGUAGES
from handoffs.encoder import Encoder, Vectors

HUMAN = "human"
BYE = "bye"
KINDS = ("greeting", "mood", "bot", "help", "thanks", "bye", "yes", "no", HUMAN)
SHORT_WORDS = 6  # a longer sentence that is merely like "yes" says something else
_PIECE = re.compile(r"[,;.!，；。！]")
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


@dataclass(frozen=True)
class Remark:
    """The kind of remark a text is most like, with the cosine; `exact` when it is one of the listed phrasings."""

    kind: str
    similarity: float
    exact: bool = False


class Remarks:
    """Compares texts with the remarks of all languages. Build once; `of` may run in several threads."""

    def __init__(self, encoder: Encoder) -> None:
        pairs = [(kind, text) for module in LANGUAGES.values() for kind in KINDS for text in module.REMARKS[kind]]
        self._encoder = encoder
        self._kinds = [kind for kind, _ in pairs]
        self._exact = {plain(text): kind for kind, text in pairs}
        self._vectors: Vectors = encoder.encode([text for _, text in pairs])

    def of(self, texts: Sequence[str]) -> list[Remark]:
        """The nearest remark of each text; the caller decides whether it is near enough."""
        if not texts:
            return []
        cosines = self._encoder.encode(texts) @ self._vectors.T
        return [self._remark(text, row) for text, row in zip(texts, cosines, strict=True)]

    def _remark(self, text: str, cosines: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Remark:
        listed = self._exact.get(plain(text)) or self._farewell(text)
        if listed:
            return Remark(listed, 1.0, exact=True)
        best = int(np.argmax(cosines))
        return Remark(self._kinds[best], float(cosines[best]))

    def _farewell(self, text: str) -> str:
        """`bye` when all pieces of a text are listed and one of them takes leave ("ok thanks, bye"), else empty."""
        kinds = {self._exact.get(plain(piece)) for piece in _PIECE.split(text) if plain(piece)}
        return BYE if BYE in kinds and kinds <= {BYE, "thanks", "yes", "no", "mood"} else ""


def plain(text: str) -> str:
    """Lower case, NFKC, single spaces, without punctuation at the ends: for comparing with listed phrasings."""
    folded = unicodedata.normalize("NFKC", text).lower()
    return " ".join(_EDGES.sub("", folded).split())
