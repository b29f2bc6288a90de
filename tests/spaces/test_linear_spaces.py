"""The dense and the sparse space learn the same, also where weights are kept up to a factor."""

from __future__ import annotations

import numpy as np

import onebit
from onebit.checks import rows
from onebit.contract.rule import NORM


def test_the_norm_of_the_weights_is_kept_in_the_sparse_space_as_in_the_dense_one() -> None:
    """Within a ball, whose factor the step is divided by: ||W||^2 moves by the step as the rule gave it."""
    X, y = rows(300, classes=3, width=6, seed=1)
    dense, sparse = (
        onebit.Gaptron(classes=[0, 1, 2], rate=0.5, exploration=0.1, radius=0.3, space=space, dtype="float64", seed=4)
        for space in ("dense", "sparse")
    )
    for x, label in zip(X, y, strict=True):
        for learner in (dense, sparse):
            learner.learn(learner.decide(x), label=int(label))
    memories = [learner.runtime.model.memory for learner in (dense, sparse)]
    assert np.allclose(memories[0], memories[1], rtol=1e-9)
    assert np.allclose(dense.weights, sparse.weights, rtol=1e-9, atol=1e-12)
    assert np.isclose(memories[1][NORM], np.square(sparse.weights).sum(), rtol=1e-9)
