"""What routing and retrieval ask of a sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class Encoder(Protocol):
    """Turns texts into vectors whose dot product is their cosine similarity."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """float32, shape (len(texts), dimension), each row of length 1. CPU-bound: call it in a thread."""
        ...
