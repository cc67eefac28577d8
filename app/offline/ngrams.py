"""Character n-grams hashed into a fixed space: the spelling half of routing, beside the meaning half of the encoder."""

from __future__ import annotations

import math
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.offline.softmax import Floats

BUCKETS = 1 << 14  # collisions cost less than 0.1 points on CLINC150 dev
WORD_SIZES = (2, 3, 4, 5)
HAN_SIZES = (1, 2, 3)  # Chinese words are one to three characters long
_RUNS = re.compile(r"[\u3400-\u9fff]+|[^\W_\u3400-\u9fff]+")


def ngrams(text: str) -> Counter[int]:
    """Bucket -> count: n-grams of 2-5 within words (with their borders), of 1-3 within runs of Han characters."""
    grams: Counter[int] = Counter()
    for run in _RUNS.findall(unicodedata.normalize("NFKC", text).lower()):
        han = "\u3400" <= run[0] <= "\u9fff"
        padded = run if han else f" {run} "
        for size in HAN_SIZES if han else WORD_SIZES:
            for start in range(len(padded) - size + 1):
                grams[zlib.crc32(padded[start : start + size].encode()) % BUCKETS] += 1
    return grams


@dataclass(frozen=True)
class NgramSpace:
    """TF-IDF weights learned from the prototypes; `vector` gives a text's sparse unit vector."""

    idf: Floats

    @classmethod
    def fit(cls, texts: Sequence[str]) -> NgramSpace:
        """Inverse document frequencies of `texts`, smoothed as if one more text held every n-gram."""
        seen: Counter[int] = Counter()
        for text in texts:
            seen.update(ngrams(text).keys())
        idf = np.full(BUCKETS, math.log(1 + len(texts)) + 1, dtype=np.float32)
        for bucket, count in seen.items():
            idf[bucket] = math.log((1 + len(texts)) / (1 + count)) + 1
        return cls(idf)

    def vector(self, text: str) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], Floats]:
        """(buckets, weights) of `text`, weights of length 1; both empty when the text has no letters or digits."""
        grams = ngrams(text)
        buckets = np.fromiter(grams.keys(), dtype=np.intp, count=len(grams))
        counts = np.fromiter(grams.values(), dtype=np.float32, count=len(grams))
        weights = (1 + np.log(counts)) * self.idf[buckets] if len(grams) else counts
        return buckets, weights / (float(np.linalg.norm(weights)) or 1.0)

    def dense(self, texts: Sequence[str]) -> Floats:
        """Rows of the texts, shape (len(texts), BUCKETS); for fitting only."""
        rows = np.zeros((len(texts), BUCKETS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            buckets, weights = self.vector(text)
            row[buckets] = weights
        return rows
