"""Dense or sparse: a learner that has members for either settles by the first rows that it learns, however they are handed over."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import onebit
from onebit.auto.dense.space import AutoDense
from onebit.auto.sparse.space import AutoSparse
from onebit.checks.examples import NAMES, refused, rows, state
from onebit.contract.rule import Rule
from onebit.engine.compile import loop_for
from onebit.engine.schedule import NOTHING, Schedule
from onebit.engine.stream import Tally
from onebit.errors import OnebitWarning, OutOfMemoryError
from onebit.experiments.executors.threads import execute
from onebit.experiments.trials import Trial, make_entry
from onebit.experiments.trials.shared_data import group_by_data
from onebit.learner import loop_calls
from onebit.learner.learner import Learner, copy_learner
from onebit.learner.state import dump_state, load_state
from onebit.service.inputs import Inputs
from onebit.service.task import warm
from onebit.sklearn import BanditClassifier
from onebit.spaces.choose import FILLED, LEAST_SPARSE, MOST_DENSE, ROWS_TO_SETTLE, Routing, form_for
from tests.auto.streams import Array, topics
from tests.every_rule.cases import SEED, WALKED, assert_walks_rows_as_it_steps
from tests.service.driving import replayed, run
from tests.service.test_service_state import assert_state_is_the_replay

RULE = "auto"
KINDS = ("plain", "candidates", "rewards", "corrections", "everything, late")
CASES = ("filled, as CSR", "nearly empty, dense")
cases = pytest.mark.parametrize("case", CASES)


def stream_of(case: str, count: int = WALKED) -> tuple[Any, Array]:
    """Rows in the form that they are not treated in, and their labels."""
    if case == CASES[0]:
        X, y = rows(count, seed=32)
        return scipy.sparse.csr_matrix(X), y
    X, y = topics(count, len(NAMES), 400, seed=32, length=8)
    return X.toarray(), y


def learner_of(**options: Any) -> Learner:
    return Learner(RULE, **{"classes": NAMES, "seed": SEED, **options})


def treated_as(learner: Learner) -> str | None:
    return learner.runtime.features.space


def has_moved(learner: Learner) -> bool:
    counted = learner.runtime.model.routing
    return counted is not None and counted.came != treated_as(learner)


def step(learner: Learner, X: Any, y: Array, begin: int, end: int) -> list[Any]:
    """Decide and learn, one row after the other; the labels that were played."""
    played = []
    for row in range(begin, end):
        decision = learner.decide(X[row])
        played.append(decision.label)
        learner.learn(decision, right=decision.label == NAMES[y[row]])
    return played


def same(one: Learner, other: Learner) -> bool:
    """Whether everything that is kept is equal, but the name that a learner is given at birth."""
    return {**state(one), "identity": ""} == {**state(other), "identity": ""}


@pytest.mark.parametrize(("case", "form"), [(CASES[0], "dense"), (CASES[1], "sparse")])
def test_after_eight_rows_it_settles(case: str, form: str) -> None:
    X, y = stream_of(case)
    learner, began = learner_of(), "sparse" if form == "dense" else "dense"
    for row in range(ROWS_TO_SETTLE):
        step(learner, X, y, row, row + 1)
        assert treated_as(learner) == (began if row < ROWS_TO_SETTLE - 1 else form)
    assert learner.learnt == ROWS_TO_SETTLE
    step(learner, X, y, ROWS_TO_SETTLE, 3 * ROWS_TO_SETTLE)
    assert treated_as(learner) == form


@cases
@pytest.mark.parametrize("kind", KINDS)
def test_running_is_stepping(case: str, kind: str) -> None:
    X, y = stream_of(case)
    assert_walks_rows_as_it_steps(learner_of(), X, y, kind)


@cases
def test_batches_are_steps_whatever_their_size(case: str) -> None:
    X, y = stream_of(case, 40)
    for size in (3, 8, 20, 40):
        many, one = learner_of(), learner_of()
        one.runtime.identity = many.runtime.identity
        for begin in range(0, 40, size):
            decisions = many.decide_many(X[begin : begin + size])
            right = [decision.label == NAMES[y[begin + row]] for row, decision in enumerate(decisions)]
            many.learn_many(decisions, right)
            for decision, heard in zip(one.decide_many(X[begin : begin + size]), right, strict=True):
                one.learn(decision, right=heard)
        assert has_moved(many)
        assert same(many, one), f"batches of {size}"


@cases
def test_a_batch_with_truths_is_its_steps(case: str) -> None:
    X, y = stream_of(case, 20)
    many, one = learner_of(), learner_of()
    truths = [NAMES[label] if row % 3 else None for row, label in enumerate(y)]
    decisions, singly = many.decide_many(X), one.decide_many(X)
    right = [decision.label == NAMES[y[row]] for row, decision in enumerate(decisions)]
    many.learn_many(decisions, right, truths=truths)
    for decision, heard, truth in zip(singly, right, truths, strict=True):
        one.learn(decision, right=heard if truth is None else None, truth=truth)
    assert has_moved(many)
    assert same(many, one)


@cases
@pytest.mark.parametrize("after", [0, 2, ROWS_TO_SETTLE, ROWS_TO_SETTLE + 1])
def test_what_is_kept_goes_on_as_if_never_stopped(case: str, after: int, tmp_path: Path) -> None:
    X, y = stream_of(case, 30)
    learner = learner_of()
    step(learner, X, y, 0, after)
    learner.save(tmp_path / "kept.onebit")
    others = [onebit.load(tmp_path / "kept.onebit"), copy_learner(learner), pickle.loads(pickle.dumps(learner))]
    step(learner, X, y, after, 30)
    for other in others:
        step(other, X, y, after, 30)
        assert same(other, learner)


def test_csr_of_dense_rows_is_learnt_as_dense_rows_are_from_the_ninth_on() -> None:
    X, y = rows(200, seed=5)
    came_sparse, fresh = learner_of(), learner_of()
    step(came_sparse, scipy.sparse.csr_matrix(X), y, 0, ROWS_TO_SETTLE)
    fresh.runtime.ledger.next_id = ROWS_TO_SETTLE  # draws go by the number of a decision
    assert step(came_sparse, scipy.sparse.csr_matrix(X), y, ROWS_TO_SETTLE, 200) == step(
        fresh, X, y, ROWS_TO_SETTLE, 200
    )
    assert came_sparse.weights.tobytes() == fresh.weights.tobytes()


def test_text_kept_dense_is_learnt_as_sparse_rows_are_from_the_ninth_on() -> None:
    X, y = topics(200, len(NAMES), 400, seed=5, length=8)
    came_dense, fresh = learner_of(), learner_of()
    step(came_dense, X.toarray(), y, 0, ROWS_TO_SETTLE)
    fresh.runtime.ledger.next_id = ROWS_TO_SETTLE
    assert step(came_dense, X.toarray(), y, ROWS_TO_SETTLE, 200) == step(fresh, X, y, ROWS_TO_SETTLE, 200)
    assert came_dense.weights.tobytes() == fresh.weights.tobytes()


@cases
def test_rows_may_come_in_any_form_before_and_after(case: str) -> None:
    X, y = stream_of(case, 24)
    csr, dense = scipy.sparse.csr_matrix(X), X if isinstance(X, np.ndarray) else X.toarray()
    usual, mixed = learner_of(), learner_of()
    step(usual, X, y, 0, 24)
    step(mixed, X, y, 0, 1)  # the first says how rows come
    for row in range(1, 24):
        x = (csr[[row]], dense[row], csr[[row]].tocsc(), dense[row].tolist())[row % 4]
        decision = mixed.decide(x)
        mixed.learn(decision, right=decision.label == NAMES[y[row]])
    assert same(usual, mixed)
    for learner in (usual, mixed):
        assert learner.best_many(csr) == learner.best_many(dense)
        assert learner.explain(csr[[0]]) == learner.explain(dense[0])
        np.testing.assert_array_equal(learner.scores(csr[[0]]), learner.scores(dense[0]))


@cases
def test_late_feedback_on_what_was_decided_in_the_other_form(case: str) -> None:
    """Decisions keep x as it was read; JSON and back, and the other form of the learner, change nothing."""
    X, y = stream_of(case, 30)
    learner = learner_of()
    before = learner.decide_many(X[:20])
    for row in reversed(range(20)):
        decision = onebit.Decision.from_json(before[row].to_json()) if row % 2 else before[row]
        learner.learn(decision, right=decision.label == NAMES[y[row]])
    assert has_moved(learner)
    fresh = learner_of()
    other = fresh.decide_many(X[:20])
    fresh.learn_many(other[::-1], [one.label == NAMES[y[19 - place]] for place, one in enumerate(other[::-1])])
    assert same(learner, fresh)


@cases
def test_what_is_refused_on_the_way_takes_the_move_back(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is found too much in the middle of a batch, when it has moved already."""
    X, y = stream_of(case, 30)
    begun = ROWS_TO_SETTLE - 2
    learner, other = learner_of(), learner_of()
    for one in (learner, other):
        step(one, X, y, 0, begun)
    before, learning = state(learner), learner.runtime.model
    decisions = learner.decide_many(X[begun : begun + 15], ids=[f"r{row}" for row in range(15)])
    count_row, counted = type(learning).count_row, []

    def then_refuse(self: Any, table: Any, row: int) -> None:
        count_row(self, table, row)
        counted.append(treated_as(learner))
        if not self.counts_rows:
            raise onebit.errors.InputError("enough")

    monkeypatch.setattr(type(learning), "count_row", then_refuse)
    assert refused(lambda: learner.learn_many(decisions, [True] * 15)) == "enough"
    monkeypatch.undo()
    assert len(set(counted)) == 2, "it had moved"
    assert state(learner) == before
    step(learner, X, y, begun, 30)
    step(other, X, y, begun, 30)
    assert same(learner, other)


@cases
def test_what_cannot_be_read_is_refused_in_the_same_words(case: str) -> None:
    """As by a learner that was told the form, and nothing moves; in either form, before and after."""
    X, y = stream_of(case, 20)
    width = X.shape[1]
    learner, told = learner_of(), learner_of(space="dense" if case == CASES[0] else "sparse")
    bad = np.ones(width)
    bad[2] = np.nan
    strange = scipy.sparse.csr_matrix(np.ones((1, width)))
    strange.indices[-1] = width + 3
    wrong: list[Any] = [
        *(np.ones(width - 1), np.ones((2, width)), bad, scipy.sparse.csr_matrix(bad[None])),
        *(scipy.sparse.csr_matrix((1, width + 1)), strange, scipy.sparse.csr_matrix((3, width))),
        *({"a": 1.0}, "text", None, ["a"] * width, np.ones(width) + 1j, np.ones((1, 1, width))),
    ]
    for begin, end in ((0, 1), (1, 20)):
        step(learner, X, y, begin, end)
        step(told, X, y, begin, end)
        before = state(learner)
        for x in wrong:
            assert refused(partial(learner.decide, x)) == refused(partial(told.decide, x))
            assert refused(partial(learner.teach, x, [NAMES[0]])) == refused(partial(told.teach, x, [NAMES[0]]))
        assert state(learner) == before
    assert treated_as(learner) == treated_as(told)


def test_a_table_of_another_width_is_refused() -> None:
    X, y = stream_of(CASES[0], 20)
    learner, other = learner_of(), learner_of()
    step(learner, X, y, 0, 20)
    wide = other.runtime.read_table(scipy.sparse.csr_matrix((20, X.shape[1] + 1)))
    schedule = Schedule(labels=y.astype(np.int64))
    before = state(learner)
    walk = partial(learner.runtime.walk, wide, schedule, schedule.choices, Tally.empty(NOTHING), 0, 20)
    assert refused(walk) == "the rows were read for another learner; this one takes 6 features"
    assert state(learner) == before


def test_a_row_that_is_refused_in_a_run_is_named_as_in_the_table() -> None:
    X, y = rows(40, seed=32)
    X[25] *= 1e25  # whose squared length leaves the range of the weights
    order = np.arange(40)[::-1].copy()
    for table in (X, scipy.sparse.csr_matrix(X)):
        with pytest.raises(onebit.errors.InputError, match=r"^row 25: x is too long for float32 weights"):
            walked(learner_of(), table, Schedule(labels=y[order].astype(np.int64), order=order))


def walked(learner: Learner, X: Any, schedule: Schedule) -> Learner:
    """The learner, after a walk over a whole schedule."""
    table = learner.runtime.read_table(X)
    learner.runtime.walk(table, schedule, schedule.choices, Tally.empty(NOTHING), 0, schedule.steps)
    return learner


def test_zeros_that_are_stored_and_columns_out_of_order() -> None:
    X, y = rows(WALKED, seed=3)
    X[:, ::2] = 0.0
    csr = scipy.sparse.csr_matrix(X)
    columns = np.tile(np.arange(X.shape[1])[::-1], WALKED)  # every cell is stored
    stored = scipy.sparse.csr_matrix((X[:, ::-1].ravel(), columns, np.arange(WALKED + 1) * X.shape[1]), shape=X.shape)
    schedule = Schedule(labels=y.astype(np.int64))
    learner = walked(learner_of(), stored, schedule)
    assert learner.runtime.model.routing == walked(learner_of(), csr, schedule).runtime.model.routing
    assert learner.describe().form == "rows came sparse, 50 % filled: treated as dense"
    assert_walks_rows_as_it_steps(learner_of(), stored, y, "plain")


@cases
@pytest.mark.parametrize("after", [3, ROWS_TO_SETTLE, 12])
def test_a_class_more_before_and_after_the_move(case: str, after: int) -> None:
    X, y = stream_of(case, 30)
    learner, fewer = learner_of(classes=NAMES[:4]), np.minimum(y, 3)
    step(learner, X, fewer, 0, after)
    learner.add_class(NAMES[4])
    other = copy_learner(learner)
    step(learner, X, y, after, 30)
    schedule = Schedule(labels=y[after:].astype(np.int64))
    walked(other, X[after:], schedule).runtime.finish_walk(schedule)
    assert same(learner, other)
    assert has_moved(learner)


def test_columns_of_one_and_of_many() -> None:
    y = np.arange(20) % 2
    one, many = learner_of(), learner_of()
    step(one, scipy.sparse.csr_matrix(np.ones((20, 1))), y, 0, 20)
    assert treated_as(one) == "dense"
    wide = scipy.sparse.csr_matrix((np.ones(20), (np.arange(20), np.arange(20))), shape=(20, 2**20))
    step(many, wide, y, 0, 20)
    assert treated_as(many) == "sparse"
    assert many.describe().form == "rows came sparse, 9.5e-05 % filled: treated as sparse"


def test_taught_rows_count_and_empty_ones_do_not() -> None:
    X, y = stream_of(CASES[0], 40)
    labels = [NAMES[label] for label in y]
    at_once, singly, fitted = learner_of(), learner_of(), learner_of()
    at_once.teach(X[:20], labels[:20])
    for row in range(20):
        singly.teach(X[row], [labels[row]])
    assert treated_as(at_once) == "dense"
    assert same(at_once, singly)
    nothing = scipy.sparse.csr_matrix((20, X.shape[1]))
    fitted.teach(nothing, labels[:20])
    step(fitted, nothing, y, 0, 20)
    assert fitted.runtime.model.routing == Routing("sparse")


def test_names_and_a_form_that_was_said_are_left_alone() -> None:
    X, y = stream_of(CASES[0], 20)
    said = learner_of(space="sparse")
    step(said, X, y, 0, 20)
    named = learner_of()
    dicts = [{f"f{column}": float(value) for column, value in enumerate(x)} for x in X.toarray()]
    step(named, dicts, y, 0, 20)
    hashed = learner_of(hash_bits=4)
    step(hashed, dicts, y, 0, 20)
    for learner in (said, named, hashed):
        assert treated_as(learner) == "sparse"
        assert learner.runtime.model.routing is None
        assert learner.describe().form is None
        assert treated_as(copy_learner(learner)) == "sparse"
        assert copy_learner(learner).runtime.model.routing is None
    plain = Learner("bpa", classes=NAMES)
    step(plain, X, y, 0, 20)
    assert treated_as(plain) == "sparse"
    assert "routing" not in state(plain)


def test_thresholds() -> None:
    assert form_for("sparse", FILLED, MOST_DENSE) == "dense"
    assert form_for("sparse", FILLED - 1e-9, 10) == "sparse"
    assert form_for("sparse", 1.0, MOST_DENSE + 1) == "sparse"
    assert form_for("dense", FILLED, 10**6) == "dense"
    assert form_for("dense", FILLED - 1e-9, LEAST_SPARSE) == "sparse"
    assert form_for("dense", 0.0, LEAST_SPARSE - 1) == "dense"
    assert not Routing("dense").may_move(LEAST_SPARSE - 1)
    assert not Routing("sparse").may_move(MOST_DENSE + 1)


def test_it_says_which_form_and_why() -> None:
    X, y = stream_of(CASES[0], 20)
    learner = learner_of()
    assert learner.describe().form is None
    step(learner, X, y, 0, 1)
    assert (
        learner.describe().form == f"rows come sparse: after {ROWS_TO_SETTLE} are learnt it settles on dense or sparse"
    )
    step(learner, X, y, 1, 20)
    described = learner.describe()
    assert described.form == "rows came sparse, 100 % filled: treated as dense"
    assert described.form in str(described).splitlines()
    assert described.to_dict()["form"] == described.form
    narrow = learner_of()
    step(narrow, X.toarray(), y, 0, 1)
    assert narrow.describe().form == "rows come dense: treated as dense"
    dense, labels = stream_of(CASES[1], 20)
    other = learner_of()
    step(other, dense, labels, 0, 20)
    assert other.describe().form == "rows came dense, 2 % filled: treated as sparse"
    assert (
        Routing("dense", ROWS_TO_SETTLE, ROWS_TO_SETTLE).describe(1000, "sparse")
        == "rows came dense, 0.1 % filled: treated as sparse"
    )


def test_what_would_take_too_much_memory_stays_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = stream_of(CASES[0], 30)
    learner = learner_of()
    monkeypatch.setattr("onebit.learner.model.MOST_BYTES", 10)
    step(learner, X, y, 0, 20)
    assert treated_as(learner) == "sparse"
    form = "rows came sparse, 100 % filled: treated as sparse, as there is not enough memory for dense ones"
    assert learner.describe().form == form
    monkeypatch.undo()
    again = copy_learner(learner)
    for one in (learner, again):  # it has settled
        step(one, X, y, 20, 30)
        assert one.describe().form == form
    assert same(learner, again)


def test_no_memory_for_the_move_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = stream_of(CASES[0], 30)
    learner = learner_of()
    step(learner, X, y, 0, ROWS_TO_SETTLE - 1)

    def lacking(self: Any, blueprint: Any, arrays: Any = None) -> None:
        raise OutOfMemoryError("there is not enough memory for 5 x 6 weights")

    monkeypatch.setattr(type(learner.runtime.model), "_make_space", lacking)
    with pytest.warns(OnebitWarning, match="not enough memory .*; rows stay sparse instead of dense"):
        step(learner, X, y, ROWS_TO_SETTLE - 1, ROWS_TO_SETTLE)
    monkeypatch.undo()
    step(learner, X, y, ROWS_TO_SETTLE, 30)
    assert treated_as(learner) == "sparse"
    assert learner.learnt == 30


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"came": "wide"}, "'routing.came' of the manifest is 'wide', but must be dense or sparse"),
        ({"rows": ROWS_TO_SETTLE + 1}, f"must have at most {ROWS_TO_SETTLE} rows"),
        ({"rows": 1, "filled": 7}, "at most 6 filled cells"),
        ({"filled": -1}, "'routing.filled' of the manifest is -1"),
        ({"more": 1}, "must be an object of the fields came, rows, filled"),
    ],
)
def test_a_file_that_counts_what_cannot_be_is_refused(changed: dict[str, Any], sentence: str) -> None:
    X, y = stream_of(CASES[0], 20)
    learner = learner_of()
    step(learner, X, y, 0, 20)
    manifest, arrays = dump_state(learner.runtime)
    bad = {**manifest, "routing": {**manifest["routing"], **changed}}
    assert sentence in refused(lambda: load_state(bad, arrays))


def test_a_file_of_names_cannot_have_counted() -> None:
    learner = learner_of()
    learner.decide({"a": 1.0})
    manifest, arrays = dump_state(learner.runtime)
    bad = {**manifest, "routing": {"came": "sparse", "rows": 0, "filled": 0}}
    assert "features are named" in refused(lambda: load_state(bad, arrays))


def test_a_task_of_a_service_is_the_replay_of_its_log(tmp_path: Path) -> None:
    """Before, while and after it moves, with snapshots on the way and without."""
    features = {"kind": "numbers", "size": LEAST_SPARSE}
    run(assert_state_is_the_replay(tmp_path, {"wide": {"learner": RULE, "features": features}}, 30))
    manifest = json.loads(replayed(tmp_path, "wide")[0])
    assert manifest["routing"]["came"] == "dense"
    assert manifest["features"]["space"] == "sparse"


def test_a_service_has_all_compiled_before_a_task_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = Inputs("numbers", LEAST_SPARSE)
    learner = learner_of(features=LEAST_SPARSE)
    learner.runtime.fix_features(np.empty((0, LEAST_SPARSE)))
    before, compiled = state(learner), set()

    def noted(rule: Rule, space: Any, *loop: Any) -> Any:
        compiled.add(type(space))
        return loop_for(rule, space, *loop)

    monkeypatch.setattr(loop_calls, "loop_for", noted)
    warm(learner, inputs)
    assert compiled == {AutoDense, AutoSparse}
    assert state(learner) == before


def test_the_memory_of_a_task_is_that_of_the_larger_form(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = learner_of().runtime.model
    for classes in (5, 300):
        either = learnt.size(classes, LEAST_SPARSE, True)
        sparse = learnt.size(classes, LEAST_SPARSE, False)
        with monkeypatch.context() as patch:
            patch.setattr(Routing, "may_move", lambda self, columns: False)
            dense = learnt.size(classes, LEAST_SPARSE, True)
        assert either == max(dense, sparse)


def test_for_scikit_learn_in_parts_or_at_once() -> None:
    X, y = rows(120, seed=7)
    csr = scipy.sparse.csr_matrix(X)
    whole, parts = (BanditClassifier(RULE, random_state=1) for _ in range(2))
    whole.partial_fit(csr, y, classes=np.arange(len(NAMES)))
    for begin in range(0, 120, 6):
        parts.partial_fit(csr[begin : begin + 6], y[begin : begin + 6], classes=np.arange(len(NAMES)))
    assert treated_as(whole.learner_) == "dense"
    assert same(whole.learner_, parts.learner_)
    np.testing.assert_array_equal(whole.predict(csr), whole.predict(X))
    np.testing.assert_array_equal(whole.predict_proba(csr), whole.predict_proba(X))


@cases
@pytest.mark.parametrize("order", ["file", "shuffle", "resample"])
def test_a_run_is_stepping_in_any_order(case: str, order: str) -> None:
    X, y = stream_of(case, 60)
    stream = onebit.stream(
        X,
        [NAMES[label] for label in y],
        classes=NAMES,
        order=order,
        rounds=150,
        delay="geometric:3",
        missing=0.2,
        seed=SEED,
    )
    found, stepped = onebit.run(RULE, stream, calibrate=True), learner_of()
    decisions: dict[int, onebit.Decision] = {}
    for what, number, value in stream.events():
        if what == "decide":
            decisions[number] = stepped.decide(value)
        else:
            stepped.learn(decisions[number], right=value(decisions[number].label))
    assert has_moved(stepped)
    assert same(found.learner, stepped)


@cases
def test_learners_share_a_table_whatever_form_they_read_it_in(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held or in pieces, alone or beside others: one that has moved before, ones that are told a form, one that does not choose."""
    X, y = stream_of(case, 60)
    moved = learner_of()
    step(moved, X, y, 0, 20)
    told = [make_entry(name, {"space": space}) for name in (RULE, "bpa") for space in ("dense", "sparse")]
    entries = [make_entry(RULE), make_entry(moved), make_entry("bpa"), *told]
    labels = [NAMES[label] for label in y]
    stream = onebit.stream(X, labels, classes=NAMES, rounds=150, order="resample", delay="geometric:3")
    trials = [Trial(entry, stream, 1) for entry in entries]
    alone = [outcome_of([trial])[0] for trial in trials]
    assert outcome_of(trials) == alone
    monkeypatch.setattr("onebit.experiments.trials.shared_data.HELD_BYTES", 0)
    monkeypatch.setattr("onebit.data.streams.PIECE_ROUNDS", 37)
    assert outcome_of(trials) == alone


def outcome_of(trials: list[Trial]) -> list[Any]:
    """What came of trials that share their data."""
    found = {id(one.trial): one for one in execute(group_by_data(trials), 1, lambda count: None)}
    kept = [found[id(trial)] for trial in trials]
    assert all(one.learner is not None for one in kept), [one.why for one in kept]
    return [(one.tally.mistakes.tolist(), {**state(one.learner), "identity": ""}) for one in kept]  # type: ignore[arg-type]


def test_a_table_is_turned_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never as a whole, which may be larger than memory; blocks of any size give the same."""
    X, y = stream_of(CASES[0], 60)
    learners = []
    for cells in (1, 13, 1 << 20):
        monkeypatch.setattr(loop_calls, "BLOCK", cells)
        learners.append(walked(learner_of(), X, Schedule(labels=y.astype(np.int64))))
    assert same(learners[0], learners[1])
    assert same(learners[0], learners[2])
