"""The dense and the sparse space learn the same, also where weights are kept up to a factor."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import onebit
from onebit.checks.examples import rows
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


@pytest.mark.parametrize("classes", [3, 4, 7, 16, 17])
def test_sparse_rows_are_summed_in_the_order_in_which_they_are_stored(classes: int) -> None:
    """Whatever the processor adds at a time: values of very different sizes show it in the last bits."""
    generator = np.random.default_rng(classes)
    learner = onebit.Perceptron(classes=classes, seed=1)
    X = (generator.standard_normal((40, 90)) * 10.0 ** generator.integers(-6, 7, (40, 90))).astype(np.float32)
    for number, x in enumerate(X):
        learner.learn(learner.decide(csr_array(x[None])), label=number % classes)
    weights, several = learner.weights, 0
    for x in X:
        terms = (weights * x).astype(np.float64)  # products in the precision of the weights, sums in float64
        expected = np.zeros(classes)
        for feature in range(x.size):
            expected += terms[:, feature]
        several += (expected != terms[:, ::-1].cumsum(axis=1)[:, -1]).any()
        assert learner.scores(csr_array(x[None])).tolist() == expected.tolist()
    assert several > 10  # sums that are others in another order
