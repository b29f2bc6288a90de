"""What every learner must do, as checks that anyone can run on a learner of their own.

    onebit.checks.check_learner(lambda **options: onebit.Learner(my_rule, **options))

A factory takes `classes` and the common options of a learner (`seed`, `space`, `dtype`, ...) and makes a fresh one. Each check is
a function of a factory that raises an AssertionError; `CHECKS` lists them.
"""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.decision import Decision
from onebit.engine.stream import stream
from onebit.errors import OnebitError
from onebit.experiments.run import run
from onebit.learner import Learner, copy_of, load
from onebit.rules import registry
from onebit.state import state_of

Factory = Callable[..., Learner]
Array = NDArray[Any]

NAMES = ["ant", "bee", "cat", "dog", "eel"]
WIDTH = 6


def check_learner(factory: Factory, skip: Collection[str] = ()) -> None:
    """Run every check but those named in `skip`; the first that fails is named.

    >>> import onebit
    >>> check_learner(lambda **options: onebit.Perceptron(**options), skip=["same_in_another_process"])
    """
    for name, check in CHECKS.items():
        if name not in skip:
            try:
                check(factory)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error


# --- streams and helpers -----------------------------------------------------------------------------------------------


def rows(count: int, seed: int = 0, classes: int = len(NAMES), width: int = WIDTH) -> tuple[Array, Array]:
    """Rows around class centres, with noise, at most 1 long."""
    generator = np.random.default_rng([seed, classes, width])
    centres = generator.normal(size=(classes, width))
    y = generator.integers(0, classes, size=count)
    X = centres[y] + 0.7 * generator.normal(size=(count, width))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def names_of(width: int = WIDTH) -> list[str]:
    """Feature names whose order is that of the columns."""
    return [f"f{column:03d}" for column in range(width)]


def played(learner: Learner, X: Any, y: Array) -> list[tuple[Any, ...]]:
    """Step a learner through rows; what it decided."""
    seen = []
    for x, label in zip(X, y, strict=True):
        decision = learner.decide(x)
        learner.learn(decision, label=learner.classes[label])
        seen.append((decision.label, decision.greedy, decision.propensity, decision.weight, decision.notes))
    return seen


def trained(factory: Factory, count: int = 60, **options: Any) -> Learner:
    """A learner that has learnt something."""
    learner = factory(classes=NAMES, **options)
    played(learner, *rows(count))
    return learner


def state(learner: Learner) -> dict[str, Any]:
    """All that a learner is, for comparison."""
    manifest, arrays = state_of(learner.runtime)
    return {**manifest, **{name: array.tobytes() for name, array in arrays.items()}}


def spaces_of(factory: Factory) -> tuple[str, ...]:
    """The spaces that a learner can have; one with full matrices takes dense rows alone."""
    try:
        factory(classes=NAMES, features=WIDTH, space="sparse")
    except OnebitError:
        return ("dense",)
    return ("dense", "sparse")


def refused(action: Callable[[], object]) -> str:
    """The sentence with which an action is refused."""
    try:
        action()
    except OnebitError as error:
        return str(error)
    raise AssertionError("was accepted, but should have been refused with an OnebitError")


def _csr(X: Array) -> Iterator[Any]:
    class Row:
        """A CSR row by its attributes, as SciPy has them."""

        def __init__(self, x: Array) -> None:
            self.indices = np.flatnonzero(x).astype(np.int32)
            self.data = x[self.indices]
            self.indptr = np.array([0, len(self.indices)])
            self.shape = (1, len(x))

    return (Row(x) for x in X)


# --- the checks --------------------------------------------------------------------------------------------------------


def check_decides_before_learning(factory: Factory) -> None:
    """A fresh learner names one of its classes, with its probability."""
    learner = factory(classes=NAMES)
    decision = learner.decide(np.ones(WIDTH) / math.sqrt(WIDTH))
    assert decision.label in NAMES
    assert decision.greedy in NAMES
    assert 0.0 < decision.propensity <= 1.0


def check_decide_is_pure(factory: Factory) -> None:
    """Deciding with an id, asking for probabilities and for the best change nothing, and asking again gives the same."""
    learner = trained(factory)
    before = state(learner)
    for x in rows(5, seed=1)[0]:
        first = learner.decide(x, id="again")
        chances, best = learner.probabilities(x), learner.best(x, id="again")
        assert learner.decide(x, id="again") == first
        assert learner.probabilities(x) == chances
        assert best == first.greedy
    assert state(learner) == before


def check_number_is_all_that_moves(factory: Factory) -> None:
    """Deciding without an id takes the next number, and nothing else moves."""
    learner = trained(factory)
    before = state(learner)
    decision = learner.decide(rows(1)[0][0])
    after = state(learner)
    assert decision.id == before["next"]
    assert {**after, "next": before["next"]} == before


def check_probabilities(factory: Factory) -> None:
    """Probabilities sum to one, keep their floor, and are the propensities of decisions."""
    learner = trained(factory)
    exploration = getattr(learner.runtime.model.params, "exploration", 0.0)
    floor = 0.0 if math.isnan(exploration) else exploration / len(NAMES)
    for x in [*rows(20, seed=2)[0], np.zeros(WIDTH)]:
        chances = learner.probabilities(x)
        assert list(chances) == NAMES
        assert abs(sum(chances.values()) - 1.0) < 1e-9, chances
        assert min(chances.values()) >= floor - 1e-12, (chances, floor)
        decision = learner.decide(x)
        assert decision.propensity == chances[decision.label]


def check_frequencies(factory: Factory) -> None:
    """Over many ids labels are played, and called best, as often as the probabilities say, ties included.

    Each of a few hundred frequencies is within 5.5 standard deviations: a right learner fails once in about 100,000 times.
    """
    count = 4000
    for learner in (factory(classes=NAMES), trained(factory)):
        for x in [*rows(3, seed=3)[0], np.zeros(WIDTH)]:
            decisions = learner.decide_many(np.tile(x, (count, 1)))
            chances = learner.probabilities(x)
            for name in NAMES:
                seen = sum(decision.label == name for decision in decisions) / count
                spread = math.sqrt(chances[name] * (1.0 - chances[name]) / count)
                within = abs(seen - chances[name]) <= 5.5 * spread + 1e-9
                assert within, f"{name} was played {seen} of the time, and probabilities says {chances[name]}"


def check_feedback_out_of_order(factory: Factory) -> None:
    """Feedback may come in any order, or not at all; what is learnt depends on the order of learning alone."""
    X, y = rows(30, seed=4)
    order = np.random.default_rng(0).permutation(30)[:25]
    weights = []
    for _ in range(2):
        learner = factory(classes=NAMES)
        decisions = [learner.decide(x) for x in X]
        for place in order:
            learner.learn(decisions[place], label=NAMES[y[place]])
        assert learner.learnt == 25
        weights.append(learner.weights)
    assert np.array_equal(weights[0], weights[1])


def check_learns_once(factory: Factory) -> None:
    """The same decision twice, one of another learner, and no decision at all are refused, and nothing moves."""
    learner, other = trained(factory), trained(factory)
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
    assert "either" in refused(lambda: learner.learn(learner.decide(x, id="two")))
    assert state(learner) == before


def check_batches(factory: Factory) -> None:
    """`decide_many` and `learn_many` are `decide` and `learn` one after the other; a bad batch changes nothing."""
    X, y = rows(40, seed=6)
    one = trained(factory)
    many = copy_of(one)
    singles = [one.decide(x) for x in X]
    batch = many.decide_many(X)
    assert singles == batch
    for decision, label in zip(singles, y, strict=True):
        one.learn(decision, label=NAMES[label])
    many.learn_many(batch, labels=[NAMES[label] for label in y])
    assert state(one) == state(many)
    again = many.decide_many(X[:3])
    before = state(many)
    refused(lambda: many.learn_many([again[0], batch[0]], labels=NAMES[:2]))
    refused(lambda: many.learn_many([again[0], again[0]], labels=NAMES[:2]))
    assert state(many) == before


def check_json(factory: Factory) -> None:
    """A decision survives a journey as JSON, and is learnt as if it had never left."""
    here = trained(factory)
    there = copy_of(here)
    for x in rows(5, seed=7)[0]:
        decision = here.decide(x)
        there.decide(x)
        here.learn(decision, label=NAMES[1])
        there.learn(Decision.from_json(decision.to_json()), label=NAMES[1])
    assert state(here) == state(there)


def check_saves(factory: Factory) -> None:
    """Stop, save, load, go on is never stopped, bit for bit."""
    X, y = rows(60, seed=8)
    for space in spaces_of(factory):
        learner = trained(factory, space=space)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "learner.onebit"
            learner.save(path)
            loaded = load(path, learner.runtime.rule)
        assert state(loaded) == state(learner)
        assert played(loaded, X, y) == played(learner, X, y)
        assert state(loaded) == state(learner)


def check_same_in_another_process(factory: Factory) -> None:
    """A learner loaded in another process decides the same; only for rules that onebit comes with."""
    learner = trained(factory)
    if registry().get(learner.runtime.rule.name) is not learner.runtime.rule:
        return
    X = rows(10, seed=9)[0]
    program = (
        "import sys, json, onebit; learner = onebit.load(sys.argv[1]);"
        "print('\\n'.join(learner.decide(x).to_json() for x in json.loads(sys.argv[2])))"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.onebit"
        learner.save(path)
        command = [sys.executable, "-P", "-c", program, str(path), str(X.tolist())]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    there = [Decision.from_json(line) for line in answer.stdout.splitlines()]
    assert there == [learner.decide(x) for x in X]


def check_forms(factory: Factory) -> None:
    """Dense, CSR and dict rows give the same decisions; CSR and dict the same weights, bit for bit, in any order of names.

    A learner that is composed looks at dense rows in other ways than at sparse ones.
    """
    if len(spaces_of(factory)) == 1:
        return
    X, y = rows(80, seed=10)
    X[X < -0.4] = 0.0
    columns = names_of()
    dicts = [{name: value for name, value in zip(columns, x, strict=True) if value} for x in X.tolist()]
    # Every name in the first dict, so that the vocabulary is the columns, in order.
    dicts[0] = dict(zip(columns, X[0].tolist(), strict=True))
    backwards = [dict(reversed(entries.items())) for entries in dicts]
    options = {"classes": NAMES, "dtype": "float64"}
    dense, sparse, named, turned = factory(**options), factory(**options), factory(**options), factory(**options)
    seen_sparse = played(sparse, _csr(X), y)
    assert played(named, dicts, y) == seen_sparse
    assert played(turned, backwards, y) == seen_sparse
    assert np.array_equal(named.weights, sparse.weights)
    if not dense.runtime.rule.composite:
        assert [one[:2] for one in played(dense, X, y)] == [one[:2] for one in seen_sparse]
        assert np.allclose(dense.weights, sparse.weights, rtol=1e-9, atol=1e-9)


def check_column_order(factory: Factory) -> None:
    """The order of the columns does not matter, up to rounding; to a learner that draws random features it does."""
    X, y = rows(80, seed=11)
    turned = np.random.default_rng(1).permutation(WIDTH)
    first, second = factory(classes=NAMES, dtype="float64"), factory(classes=NAMES, dtype="float64")
    if first.runtime.rule.composite:
        return
    seen, seen_turned = played(first, X, y), played(second, X[:, turned], y)
    assert [one[:2] for one in seen] == [one[:2] for one in seen_turned]
    assert np.allclose(first.weights[:, turned], second.weights, rtol=1e-9, atol=1e-9)


def check_arrays_of_any_kind(factory: Factory) -> None:
    """Lists, float32 and float64, strided, reversed and read-only arrays are read alike."""
    values = (np.arange(WIDTH) - 2.0) / 8.0
    strided = np.repeat(values, 2)[::2]
    fixed = values.copy()
    fixed.flags.writeable = False
    forms = [values, values.tolist(), values.astype(np.float32), strided, values[::-1].copy()[::-1], fixed]
    expected = trained(factory).scores(values)
    for form in forms:
        assert np.array_equal(trained(factory).scores(form), expected), type(form)


def check_zero_vector(factory: Factory) -> None:
    """X = 0 is played by the usual distribution, and nothing is learnt from it, unless there is a constant feature."""
    learner = trained(factory)
    if learner.runtime.rule.composite:
        return
    weights, memory = learner.weights, learner.runtime.model.memory.copy()
    for label in NAMES:
        learner.learn(learner.decide(np.zeros(WIDTH)), label=label)
    assert np.array_equal(learner.weights, weights)
    assert np.array_equal(learner.runtime.model.memory, memory)


def check_bad_rows(factory: Factory) -> None:
    """NaN, infinity, wrong lengths and wrong types are refused with a sentence, and nothing moves."""
    learner = trained(factory)
    before = state(learner)
    good = np.ones(WIDTH) / 3.0
    for place, bad in ((2, math.nan), (0, math.inf), (WIDTH - 1, -math.inf)):
        x = good.copy()
        x[place] = bad
        matrix = np.stack([good, x])
        sentence = refused(partial(learner.decide, x))
        assert str(place) in sentence, sentence
        assert "row 1" in refused(partial(learner.decide_many, matrix))
        assert "row 1" in refused(partial(learner.teach, matrix, NAMES[:2]))
    wrong: list[Any] = [good[:-1], np.ones((2, WIDTH)), ["a"] * WIDTH, {"f": 1.0}, "text", None, good + 1j]
    for x in wrong:
        refused(partial(learner.decide, x))
    assert state(learner) == before


def check_keeps_no_reference(factory: Factory) -> None:
    """What a user does with an array after `decide` changes neither the decision nor what is learnt."""
    learner, other = trained(factory), trained(factory)
    x = rows(1, seed=12)[0][0]
    decision, unspoilt = learner.decide(x), other.decide(x.copy())
    x[:] = 1e6
    learner.learn(decision, label=NAMES[2])
    other.learn(unspoilt, label=NAMES[2])
    assert np.array_equal(learner.weights, other.weights)


def check_clone(factory: Factory) -> None:
    """A clone goes its own way."""
    learner = trained(factory)
    before = state(learner)
    played(copy_of(learner), *rows(20, seed=13))
    assert state(learner) == before


def check_documentation(factory: Factory) -> None:
    """The class says what it takes: every parameter is in the signature, with its default, and in the documentation."""
    learner = factory(classes=NAMES)
    made = type(learner)
    if made is Learner:
        return
    signature = inspect.signature(made)
    for name, default in learner.runtime.rule.defaults.items():
        assert signature.parameters[name].default == default, name
    for name in signature.parameters:
        assert f"    {name}: " in (made.__doc__ or ""), name


def check_memory_is_bounded(factory: Factory) -> None:
    """A thousand feedbacks in order leave a learner no larger than a hundred did."""
    learner = trained(factory, 100)
    size = sum(array.nbytes for array in state_of(learner.runtime)[1].values())
    played(learner, *rows(900, seed=14))
    assert sum(array.nbytes for array in state_of(learner.runtime)[1].values()) == size


def check_compiled_is_python(factory: Factory) -> None:
    """The compiled loop does what the same functions do as plain Python."""
    X, y = rows(60, seed=15)
    for space in spaces_of(factory):
        compiled, plain = (factory(classes=NAMES, features=WIDTH, space=space, dtype="float64") for _ in range(2))
        plain.runtime.model._loop = stream
        with np.errstate(over="ignore"):
            seen = played(plain, X, y)
        for one, other in zip(played(compiled, X, y), seen, strict=True):
            assert one[:2] == other[:2]
            assert np.allclose(one[2:4], other[2:4])
        assert np.allclose(compiled.weights, plain.weights, rtol=1e-9, atol=1e-9)


def check_run_is_steps(factory: Factory) -> None:
    """`onebit.run` is stepping by hand, bit for bit, and leaves the learner it was given alone."""
    X, y = rows(150, seed=16)
    labels = [NAMES[label] for label in y]
    for space in spaces_of(factory):
        learner = factory(classes=NAMES, space=space)
        before = state(copy_of(learner)) if learner.features else None
        result = run(learner, X, labels)
        assert before is None or state(learner) == before
        by_hand = copy_of(learner)
        seen = played(by_hand, X, y)
        wrong = [sum(one[part] != label for one, label in zip(seen, labels, strict=True)) for part in (0, 1)]
        assert [round(result.errors[0] * 150), round(result.greedy_errors[0] * 150)] == wrong
        assert np.array_equal(result.learner.weights, by_hand.weights)
        assert state(result.learner) == state(by_hand)


def check_new_class(factory: Factory) -> None:
    """A class added at run time can be learnt and taught; decisions made before it are still learnt."""
    learner = trained(factory)
    X, _ = rows(40, seed=17)
    early = learner.decide(X[0])
    scores = learner.scores(X[0])
    try:
        learner.add_class("fox")
    except OnebitError:
        return  # a rule may refuse, with a sentence: a coding matrix has no row for it
    assert learner.classes == (*NAMES, "fox")
    assert np.array_equal(learner.scores(X[0])[: len(scores)], scores)
    assert abs(sum(learner.probabilities(X[0]).values()) - 1.0) < 1e-9
    learner.learn(early, label=NAMES[0])
    for x in X:
        learner.learn(learner.decide(x), label="fox")
    refused(lambda: learner.add_class("fox"))
    learner.teach(X, ["fox"] * len(X))
    assert "fox" in {learner.best(x) for x in X}


def check_sizes(factory: Factory) -> None:
    """Two classes, a hundred classes, one feature, a bias: all work."""
    for classes, width, bias in ((2, WIDTH, False), (100, WIDTH, True), (3, 1, False), (2, 1, True)):
        X, y = rows(120, classes=classes, width=width)
        composite = factory(classes=classes).runtime.rule.composite
        learner = factory(classes=classes, bias=bias and not composite)
        played(learner, X, y)
        assert composite or learner.weights.shape[1] == width + bias
        assert np.isfinite(learner.weights).all()


def check_bias(factory: Factory) -> None:
    """A bias is a constant feature, in either space, up to rounding; a learner that has one anyway refuses it."""
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


def check_teaching(factory: Factory) -> None:
    """Labelled rows are learnt: afterwards the labels of easy rows are called best, mostly."""
    X, y = easy_rows(400)
    learner = factory(classes=NAMES)
    learner.teach(X, [NAMES[label] for label in y])
    right = sum(learner.best(x) == NAMES[label] for x, label in zip(X[-100:], y[-100:], strict=True))
    assert right >= 50, f"only {right} of 100 easy rows are right after teaching (chance is 20)"


def check_learns(factory: Factory) -> None:
    """On an easy stream the best label is wrong less than half as often as chance."""
    X, y = easy_rows(3000)
    result = run(factory(classes=NAMES, features=X.shape[1], space="dense"), X, [NAMES[label] for label in y])
    late = 2 * result.greedy_errors[0] - np.interp(1500, result.curve.rounds, result.curve.greedy[0])
    chance = 1.0 - 1.0 / len(NAMES)
    assert late < chance / 2, f"error {late:.3f} in the second half, chance is {chance}"


def easy_rows(count: int) -> tuple[Array, Array]:
    """Five well separated classes on the coordinate axes, with a little noise, at most 1 long."""
    generator = np.random.default_rng(19)
    y = generator.integers(0, len(NAMES), size=count)
    X = np.eye(len(NAMES))[y] + 0.05 * generator.normal(size=(count, len(NAMES)))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def check_quiet(factory: Factory) -> None:
    """Nothing warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = trained(factory)
        refused(lambda: learner.decide(np.full(WIDTH, 1e300)))


CHECKS: dict[str, Callable[[Factory], None]] = {
    name.removeprefix("check_"): check
    for name, check in list(globals().items())
    if name.startswith("check_") and name != "check_learner"
}
