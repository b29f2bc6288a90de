"""Checks of what surrounds a rule: rows of any form, ids, answers, copies. No rule can break them, so `onebit.checks` leaves them out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from onebit import checks
from onebit.checks.deciding import takes_candidates
from onebit.checks.examples import (
    NAMES,
    WIDTH,
    Array,
    Factory,
    list_spaces,
    pick_names,
    play,
    refused,
    rows,
    state,
    train,
)
from onebit.contract.rule import RIGHT
from onebit.learner.learner import Learner, copy_learner
from onebit.learner.state import dump_state


def csr_rows(X: Array) -> Iterator[Any]:
    """Return rows in CSR form, one at a time."""

    class Row:
        """A CSR row with SciPy's attributes."""

        def __init__(self, x: Array) -> None:
            self.indices = np.flatnonzero(x).astype(np.int32)
            self.data = x[self.indices]
            self.indptr = np.array([0, len(self.indices)])
            self.shape = (1, len(x))

    return (Row(x) for x in X)


def feature_names(width: int = WIDTH) -> list[str]:
    """Return feature names whose alphabetical order is that of the columns."""
    return [f"f{column:03d}" for column in range(width)]


def check_number_is_all_that_moves(factory: Factory) -> None:
    """Check that deciding without an id uses the next number and changes nothing else."""
    learner = train(factory)
    before = state(learner)
    decision = learner.decide(rows(1)[0][0])
    after = state(learner)
    assert decision.id == before["next"]
    assert {**after, "next": before["next"]} == before


def check_retired_class(factory: Factory) -> None:
    """Check that a removed class is never played again.

    Decisions made before are still learnt, and the class keeps its place.
    """
    learner = train(factory)
    if not takes_candidates(learner):
        return
    X, _ = rows(20, seed=24)
    early = learner.decide(X[0], id="early")
    learner.remove_class(NAMES[0])
    loaded = Learner.from_bytes(learner.to_bytes(), learner.runtime.rule)
    learner.learn(early, label=NAMES[0])
    assert learner.classes == tuple(NAMES)
    for x in X:
        decision = learner.decide(x)
        assert decision.among == tuple(NAMES[1:])
        assert learner.probabilities(x)[NAMES[0]] == loaded.probabilities(x)[NAMES[0]] == 0.0
        learner.learn(decision, label=NAMES[1])
    assert "no class that can be played" in refused(lambda: learner.decide(X[0], among=NAMES[:1]))


def check_candidates_are_refused(factory: Factory) -> None:
    """Check that empty, unknown and malformed candidates raise an error and change nothing."""
    learner = train(factory)
    if not takes_candidates(learner):
        return
    x, before = rows(1, seed=25)[0][0], state(learner)
    for bad in ([], ["yak"], [NAMES[0], "yak"], "ant", b"ant", {"ant": 1}, 3, [None], [["ant"]], [math.nan], [True]):
        assert refused(lambda given=bad: learner.decide(x, among=given))  # type: ignore[misc]
        assert refused(lambda given=bad: learner.decide_many([x, x], among=given))  # type: ignore[misc]
    for mixed in ([NAMES[:2], "ant"], [NAMES[:2]], [NAMES[:2], []], [NAMES[:2], ["yak"]]):
        assert refused(lambda given=mixed: learner.decide_many([x, x], among=given))  # type: ignore[misc]
    assert "complete" in refused(lambda: learner.decide(x, among=NAMES[:2], complete="yes"))  # type: ignore[arg-type]
    assert "complete" in refused(lambda: learner.decide_many([x], among=NAMES[:2], complete=2))  # type: ignore[arg-type]
    decision = learner.decide(x, id="one", among=NAMES[:2])
    assert "candidates" in refused(lambda: learner.learn(decision, truth=NAMES[3]))
    foreign = decision._replace(among=tuple(NAMES[2:]))
    assert "candidates" in refused(lambda: learner.learn(foreign, label=NAMES[3]))
    assert state(learner) == before


def check_forms(factory: Factory) -> None:
    """Check that dense, CSR and dict rows give the same decisions.

    CSR and dict rows must also give the same weights, bit for bit, whatever the order of the names. A composite learner
    uses other views for dense rows than for sparse ones, and chooses the form itself unless `space` is given; the check
    sets it.
    """
    if len(list_spaces(factory)) == 1:
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
    seen_sparse = play(sparse, csr_rows(X), y)
    assert play(named, dicts, y) == seen_sparse
    assert play(turned, backwards, y) == seen_sparse
    assert np.array_equal(named.weights, sparse.weights)
    if not dense.runtime.rule.composite:
        assert [one[:2] for one in play(dense, X, y)] == [one[:2] for one in seen_sparse]
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
    seen, seen_turned = play(first, X, y), play(second, X[:, turned], y)
    assert [one[:2] for one in seen] == [one[:2] for one in seen_turned]
    assert np.allclose(first.weights[:, turned], second.weights, rtol=1e-9, atol=1e-9)


def check_arrays_of_any_kind(factory: Factory) -> None:
    """Check that lists, float32, float64, strided, reversed and read-only arrays are read alike."""
    values = (np.arange(WIDTH) - 2.0) / 8.0
    strided = np.repeat(values, 2)[::2]
    fixed = values.copy()
    fixed.flags.writeable = False
    forms = [values, values.tolist(), values.astype(np.float32), strided, values[::-1].copy()[::-1], fixed]
    expected = train(factory).scores(values)
    for form in forms:
        assert np.array_equal(train(factory).scores(form), expected), type(form)


def check_zero_vector(factory: Factory) -> None:
    """Check that nothing is learnt from x = 0, unless there is a constant feature."""
    learner = train(factory)
    if learner.runtime.rule.composite:
        return
    weights, memory = learner.weights, learner.runtime.model.memory.copy()
    for label in NAMES:
        learner.learn(learner.decide(np.zeros(WIDTH)), label=label)
    assert np.array_equal(learner.weights, weights)
    assert np.array_equal(learner.runtime.model.memory, memory)


def check_bad_rows(factory: Factory) -> None:
    """Check that NaN, infinity, wrong lengths and wrong types raise an error and change nothing."""
    learner = train(factory)
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
    learner, other = train(factory), train(factory)
    x = rows(1, seed=12)[0][0]
    decision, unspoilt = learner.decide(x), other.decide(x.copy())
    x[:] = 1e6
    learner.learn(decision, label=NAMES[2])
    other.learn(unspoilt, label=NAMES[2])
    assert np.array_equal(learner.weights, other.weights)


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
    for space in list_spaces(factory):
        options = {"classes": NAMES, "space": space, "dtype": "float64"}
        with_bias, by_hand = factory(bias=True, **options), factory(**options)
        seen, seen_by_hand = play(with_bias, X, y), play(by_hand, longer, y)
        assert [one[:2] for one in seen] == [one[:2] for one in seen_by_hand]
        assert np.allclose(with_bias.weights, by_hand.weights, rtol=1e-9, atol=1e-9)


def check_learns_once(factory: Factory) -> None:
    """Check that a decision is refused if learnt already, of another learner, or not a decision.

    Nothing must change.
    """
    learner, other = train(factory), train(factory)
    x = rows(1, seed=5)[0][0]
    decision = learner.decide(x)
    learner.learn(decision, label=NAMES[0])
    named = learner.decide(x, id="one")
    learner.learn(named, label=NAMES[0])
    before = state(learner)
    assert "already" in refused(lambda: learner.learn(decision, label=NAMES[0]))
    assert "already" in refused(lambda: learner.learn(named, label=NAMES[0]))
    assert "another learner" in refused(lambda: learner.learn(other.decide(x), label=NAMES[0]))
    assert "Decision" in refused(lambda: learner.learn("decision", label=NAMES[0]))  # type: ignore[arg-type]
    assert "no class" in refused(lambda: learner.learn(learner.decide(x, id="two"), label="yak"))
    assert "exactly one of" in refused(lambda: learner.learn(learner.decide(x, id="two")))
    assert state(learner) == before


def check_rewards_of_right_and_wrong(factory: Factory) -> None:
    """Check that rewards of 1 and 0 equal right and wrong, bit for bit, singly and in batches."""
    X, y = rows(40, seed=26)
    told = train(factory)
    rewarded, batch, many = copy_learner(told), copy_learner(told), copy_learner(told)
    if told.runtime.needs_labels:
        assert "labels" in refused(lambda: told.learn(told.decide(X[0]), reward=1.0))
        return
    decisions = [told.decide(x) for x in X]
    right = [decision.label == NAMES[label] for decision, label in zip(decisions, y, strict=True)]
    for decision, answer in zip(decisions, right, strict=True):
        told.learn(decision, right=answer)
        rewarded.learn(decision, reward=float(answer))
    batch.learn_many(decisions, right=right)
    many.learn_many(decisions, rewards=np.array(right, dtype=np.float32))
    for other in (rewarded, batch, many):
        other.runtime.ledger.next_id = told.runtime.ledger.next_id
        assert state(other) == state(told)


def check_rewards(factory: Factory) -> None:
    """Check that rewards between 0 and 1 are learnt alike singly and in batches, and summed."""
    X, _ = rows(40, seed=27)
    one = train(factory)
    if one.runtime.needs_labels:
        return
    many, before = copy_learner(one), one.runtime.model.memory[RIGHT]
    worth = np.random.default_rng(27).random(len(X))
    decisions = many.decide_many(X)
    for decision, reward in zip(decisions, worth, strict=True):
        one.learn(decision, reward=reward)
    many.learn_many(decisions, rewards=worth.tolist())
    one.runtime.ledger.next_id = many.runtime.ledger.next_id
    assert state(one) == state(many)
    assert abs(one.runtime.model.memory[RIGHT] - before - worth.sum()) < 1e-9


def check_truths(factory: Factory) -> None:
    """Check that truths count as one feedback each, singly, in batches and mixed with right and wrong.

    A rule without a step for known labels must learn from a truth whether the label was right.
    """
    X, y = rows(40, seed=28)
    one = train(factory)
    many, told = copy_learner(one), copy_learner(one)
    candidates = one.runtime.rule.takes_candidates
    sets = [sorted({*pick_names(row), NAMES[label]}) if row % 3 and candidates else None for row, label in enumerate(y)]
    decisions = many.decide_many(X, among=sets)
    truths: list[Any] = [NAMES[label] if row % 2 else None for row, label in enumerate(y)]
    right = [decision.label == NAMES[label] for decision, label in zip(decisions, y, strict=True)]
    heard = one.learnt
    if one.runtime.needs_labels:
        truths = [NAMES[label] for label in y]
    for row, (decision, truth) in enumerate(zip(decisions, truths, strict=True)):
        if truth is None:
            one.learn(decision, right=right[row])
        else:
            one.learn(decision, truth=truth)
    assert one.learnt == heard + len(X)
    one.runtime.ledger.next_id = many.runtime.ledger.next_id
    many.learn_many(decisions, None if one.runtime.needs_labels else right, truths=truths)
    assert state(one) == state(many)
    if one.runtime.rule.teach is None and not one.runtime.needs_labels:
        told.runtime.ledger.next_id = many.runtime.ledger.next_id
        told.learn_many(decisions, right)
        assert state(told) == state(many)


def check_answers_are_refused(factory: Factory) -> None:
    """Check that invalid rewards, double answers and contradictions raise an error and change nothing."""
    learner = train(factory)
    x = rows(1, seed=29)[0][0]
    before, decision, other = state(learner), learner.decide(x, id="one"), learner.decide(x, id="two")
    known = decision.label
    wrong = next(name for name in NAMES if name != known)
    rewards: list[Any] = [math.nan, math.inf, -0.1, 1.1, 10**400, "1", True, [1.0], b"1", {}]
    for bad in rewards:
        assert "0 to 1" in refused(lambda given=bad: learner.learn(decision, reward=given))  # type: ignore[misc]
        assert refused(lambda given=bad: learner.learn_many([decision, other], rewards=[0.5, given]))  # type: ignore[misc]
    for both in ({"right": True, "reward": 1.0}, {"reward": 1.0, "truth": known}, {"label": known, "truth": known}, {}):
        assert "exactly one of" in refused(lambda given=both: learner.learn(decision, **given))  # type: ignore[misc]
    assert "no class" in refused(lambda: learner.learn(decision, truth="yak"))
    assert "no class" in refused(lambda: learner.learn_many([decision], truths=[["ant"]]))  # type: ignore[list-item]
    assert "give one of" in refused(lambda: learner.learn_many([decision], [True], rewards=[1.0]))
    assert "give one of" in refused(lambda: learner.learn_many([decision]))
    assert "2 answers for 1" in refused(lambda: learner.learn_many([decision], rewards=[1.0, 0.5]))
    assert "contradicts" in refused(lambda: learner.learn_many([decision], [True], truths=[wrong]))
    assert "contradicts" in refused(lambda: learner.learn_many([decision], [False], truths=[known]))
    assert refused(lambda: learner.learn_many([decision], rewards=[None]))  # type: ignore[list-item]
    assert state(learner) == before


def check_clone(factory: Factory) -> None:
    """Check that training a copy leaves the original unchanged."""
    learner = train(factory)
    before = state(learner)
    play(copy_learner(learner), *rows(20, seed=13))
    assert state(learner) == before


def check_memory_is_bounded(factory: Factory) -> None:
    """Check that a thousand feedbacks in order leave a learner no larger than a hundred did."""
    learner = train(factory, 100)
    size = sum(array.nbytes for array in dump_state(learner.runtime)[1].values())
    play(learner, *rows(900, seed=14))
    assert sum(array.nbytes for array in dump_state(learner.runtime)[1].values()) == size


def check_quiet(factory: Factory) -> None:
    """Check that training and refusing a row raise no warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = train(factory)
        refused(lambda: learner.decide(np.full(WIDTH, 1e300)))


# What every learner of the registry must do: the checks for rules, and those above.
CHECKS: dict[str, Callable[[Factory], None]] = checks.CHECKS | {
    name.removeprefix("check_"): check for name, check in list(vars().items()) if name.startswith("check_")
}
