"""Checks of input: rows of any form and size, and invalid rows."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from onebit.checks.examples import (
    NAMES,
    WIDTH,
    Factory,
    csr_rows,
    feature_names,
    played,
    refused,
    rows,
    spaces_of,
    state,
    trained,
)


def check_forms(factory: Factory) -> None:
    """Check that dense, CSR and dict rows give the same decisions.

    CSR and dict rows must also give the same weights, bit for bit, whatever the order of the names. A composite learner
    uses other views for dense rows than for sparse ones, and chooses the form itself unless `space` is given; the check
    sets it.
    """
    if len(spaces_of(factory)) == 1:
        return
    X, y = rows(80, seed=10)
    X[X < -0.4] = 0.0
    columns = feature_names()
    dicts = [{name: value for name, value in zip(columns, x, strict=True) if value} for x in X.tolist()]
    # The first dict has every name, so that the vocabulary lists the columns in order.
    dicts[0] = dict(zip(columns, X[0].tolist(), strict=True))
    backwards = [dict(reversed(entries.items())) for entries in dicts]
    options = {"classes": NAMES, "dtype": "float64"}
    dense, named, turned = factory(**options), factory(**options), factory(**options)
    sparse = factory(**options, **({"space": "sparse"} if dense.runtime.rule.composite else {}))
    seen_sparse = played(sparse, csr_rows(X), y)
    assert played(named, dicts, y) == seen_sparse
    assert played(turned, backwards, y) == seen_sparse
    assert np.array_equal(named.weights, sparse.weights)
    if not dense.runtime.rule.composite:
        assert [one[:2] for one in played(dense, X, y)] == [one[:2] for one in seen_sparse]
        assert np.allclose(dense.weights, sparse.weights, rtol=1e-9, atol=1e-9)


def check_column_order(factory: Factory) -> None:
    """Check that the order of columns does not matter, up to rounding.

    It does matter to a composite learner, which draws random features.
    """
    X, y = rows(80, seed=11)
    turned = np.random.default_rng(1).permutation(WIDTH)
    first, second = factory(classes=NAMES, dtype="float64"), factory(classes=NAMES, dtype="float64")
    if first.runtime.rule.composite:
        return
    seen, seen_turned = played(first, X, y), played(second, X[:, turned], y)
    assert [one[:2] for one in seen] == [one[:2] for one in seen_turned]
    assert np.allclose(first.weights[:, turned], second.weights, rtol=1e-9, atol=1e-9)


def check_arrays_of_any_kind(factory: Factory) -> None:
    """Check that lists, float32, float64, strided, reversed and read-only arrays are read alike."""
    values = (np.arange(WIDTH) - 2.0) / 8.0
    strided = np.repeat(values, 2)[::2]
    fixed = values.copy()
    fixed.flags.writeable = False
    forms = [values, values.tolist(), values.astype(np.float32), strided, values[::-1].copy()[::-1], fixed]
    expected = trained(factory).scores(values)
    for form in forms:
        assert np.array_equal(trained(factory).scores(form), expected), type(form)


def check_zero_vector(factory: Factory) -> None:
    """Check that nothing is learnt from x = 0, unless there is a constant feature."""
    learner = trained(factory)
    if learner.runtime.rule.composite:
        return
    weights, memory = learner.weights, learner.runtime.model.memory.copy()
    for label in NAMES:
        learner.learn(learner.decide(np.zeros(WIDTH)), label=label)
    assert np.array_equal(learner.weights, weights)
    assert np.array_equal(learner.runtime.model.memory, memory)


def check_bad_rows(factory: Factory) -> None:
    """Check that NaN, infinity, wrong lengths and wrong types raise an error and change nothing."""
    learner = trained(factory)
    before = state(learner)
    good = np.ones(WIDTH) / 3.0
    for column, bad in ((2, math.nan), (0, math.inf), (WIDTH - 1, -math.inf)):
        x = good.copy()
        x[column] = bad
        matrix = np.stack([good, x])
        sentence = refused(partial(learner.decide, x))
        assert str(column) in sentence, sentence
        assert "row 1" in refused(partial(learner.decide_many, matrix))
        assert "row 1" in refused(partial(learner.teach, matrix, NAMES[:2]))
    wrong: list[Any] = [good[:-1], np.ones((2, WIDTH)), ["a"] * WIDTH, {"f": 1.0}, "text", None, good + 1j]
    for x in wrong:
        refused(partial(learner.decide, x))
    assert state(learner) == before


def check_keeps_no_reference(factory: Factory) -> None:
    """Check that changing an array after `decide` affects neither the decision nor what is learnt."""
    learner, other = trained(factory), trained(factory)
    x = rows(1, seed=12)[0][0]
    decision, unspoilt = learner.decide(x), other.decide(x.copy())
    x[:] = 1e6
    learner.learn(decision, label=NAMES[2])
    other.learn(unspoilt, label=NAMES[2])
    assert np.array_equal(learner.weights, other.weights)


def check_sizes(factory: Factory) -> None:
    """Check that two classes, a hundred classes, a single feature and a bias all work."""
    for classes, width, bias in ((2, WIDTH, False), (100, WIDTH, True), (3, 1, False), (2, 1, True)):
        X, y = rows(120, classes=classes, width=width)
        composite = factory(classes=classes).runtime.rule.composite
        learner = factory(classes=classes, bias=bias and not composite)
        played(learner, X, y)
        assert composite or learner.weights.shape[1] == width + bias
        assert np.isfinite(learner.weights).all()


def check_bias(factory: Factory) -> None:
    """Check that a bias equals a constant feature in either space, up to rounding.

    A learner that always has a bias must refuse the option.
    """
    if factory(classes=NAMES).runtime.rule.composite:
        refused(lambda: factory(classes=NAMES, bias=True))
        return
    X, y = rows(80, seed=18)
    X *= 0.7
    longer = np.concatenate([X, np.ones((80, 1))], axis=1)
    for space in spaces_of(factory):
        options = {"classes": NAMES, "space": space, "dtype": "float64"}
        with_bias, by_hand = factory(bias=True, **options), factory(**options)
        seen, seen_by_hand = played(with_bias, X, y), played(by_hand, longer, y)
        assert [one[:2] for one in seen] == [one[:2] for one in seen_by_hand]
        assert np.allclose(with_bias.weights, by_hand.weights, rtol=1e-9, atol=1e-9)
