"""Softmax regression on a Gram matrix, in numpy: small enough to fit at start-up, no further dependency."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
STEPS = 200  # Nesterov steps; more changes no decision on CLINC150's dev split


def fit_dual(gram: Floats, labels: NDArray[np.intp], n_classes: int, penalty: float = 1.0) -> Floats:
    """Dual weights A, shape (n, n_classes): the primal weights are X.T @ A, the logits of the training rows gram @ A.

    Minimises balanced cross-entropy + penalty / 2 * |W|^2. `gram` is X @ X.T, shape (n, n). Classes weigh the same
    however many rows they have, so that an agent with two examples is not drowned by one with fifty.
    """
    n = len(labels)
    target = np.zeros((n, n_classes), dtype=np.float32)
    target[np.arange(n), labels] = 1
    counts = np.maximum(target.sum(axis=0), 1)
    row_weight = (n / (n_classes * counts))[labels][:, None].astype(np.float32)
    step = 1.0 / (penalty + 0.5 * float(row_weight.max()) * _largest_eigenvalue(gram))
    dual = np.zeros_like(target)
    ahead = dual
    for k in range(STEPS):
        error = row_weight * (softmax(gram @ ahead) - target) + penalty * ahead
        moved = ahead - step * error
        ahead = moved + (k / (k + 3)) * (moved - dual)
        dual = moved
    return dual.astype(np.float32)


def softmax(logits: Floats) -> Floats:
    """Row-wise softmax of a (n, classes) array."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float32)


def log_softmax(logits: Floats) -> Floats:
    """Row-wise log of the softmax, stable for large logits."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)), dtype=np.float32)


def _largest_eigenvalue(gram: Floats) -> float:
    """Upper estimate of the largest eigenvalue, by power iteration (few steps do: one direction dominates)."""
    vector = np.ones(len(gram), dtype=np.float32)
    for _ in range(12):
        vector = gram @ vector
        vector /= float(np.linalg.norm(vector)) or 1.0
    return 1.05 * float(np.linalg.norm(gram @ vector))
