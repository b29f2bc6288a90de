"""One row at a time with arguments that are packed once: the same bits as any other way into the loop, whatever is replaced meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from onebit.errors import InputError
from onebit.learner import loop_calls
from onebit.learner.learner import Learner, copy_learner
from onebit.learner.loop_calls import learn_row
from onebit.learner.state import dump_state
from onebit.spaces.dense import DenseRows

WIDTH = 7
ROWS = np.random.default_rng(5).standard_normal((110, WIDTH)).astype(np.float32)
LEARNERS: dict[str, dict[str, Any]] = {
    "auto": {"rule": "auto"},
    "banditron": {"rule": "banditron"},
    "with a bias, a floor and weights of 64 bits": {
        "rule": "bpa",
        "bias": True,
        "exploration_floor": 0.2,
        "dtype": "float64",
    },
    "of second order": {"rule": "linucb", "matrix": "diagonal"},
    "with a kernel that grows": {"rule": "banditron", "kernel": "rbf:0.5", "max_support": None},
    "with labels": {"rule": "perceptron"},
}


def stepped(learner: Learner, rows: Any = ROWS) -> list[str]:
    """Decide on each row and learn whether it was even; the decisions, to the letter."""
    told = []
    for number, x in enumerate(rows):
        decision = learner.decide(x, None if number % 5 else f"row {number} of {learner.learnt}")
        told.append(decision.to_json().replace(decision.learner, "me"))
        if learner.runtime.needs_labels:
            learner.learn(decision, label=number % 3)
        else:
            learner.learn(decision, decision.label == number % 3)
    return told


def state(learner: Learner) -> Any:
    """All that a learner knows but its name."""
    manifest, arrays = dump_state(learner.runtime)
    del manifest["identity"]
    return manifest, {name: array.tobytes() for name, array in arrays.items()}


def has_row_loop(learner: Learner) -> bool:
    return learner.runtime.model.row_loop is not None


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Does something without ever packing arguments for single rows."""

    def done(action: Callable[[], Any]) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(loop_calls, "prepare_row_loop", lambda *_: None)
            return action()

    return done


@pytest.mark.parametrize("options", LEARNERS.values(), ids=LEARNERS)
def test_it_decides_and_learns_the_same_bits(options: dict[str, Any], never: Callable[..., Any]) -> None:
    here, there = Learner(classes=3, **options), Learner(classes=3, **options)
    assert stepped(here) == never(lambda: stepped(there))
    assert has_row_loop(here) is not has_row_loop(there)
    assert state(here) == state(there)


TEXTS = [" ".join(f"w{number % 7 * place % (number // 9 + 3)}" for place in range(9)) for number in range(len(ROWS))]
NAMED: dict[str, tuple[dict[str, Any], Any]] = {
    "dicts": ({}, [dict(zip("gabcdef", row.tolist(), strict=True)) for row in ROWS]),
    "dicts whose names differ": (
        {},
        [{f"n{one % 30}": value for one, value in enumerate(row.tolist(), n)} for n, row in enumerate(ROWS)],
    ),
    "hashed": ({"hash_bits": 5}, [{f"n{one}": value for one, value in enumerate(row.tolist())} for row in ROWS]),
    "texts": ({"text": True}, TEXTS),
    "texts for auto": ({"text": True, "rule": "auto"}, TEXTS),
    "texts with a kernel that grows": ({"text": True, "kernel": "rbf:0.5", "max_support": None}, TEXTS),
    "CSR": ({}, [csr_array(np.where(row > 0.3, row, 0.0)[None]) for row in ROWS]),
    "CSR of second order": (
        {"rule": "linucb", "space": "sparse", "bias": True},
        [csr_array(row[None]) for row in ROWS],
    ),
}


@pytest.mark.parametrize(("options", "rows"), NAMED.values(), ids=NAMED)
def test_sparse_rows_too(options: dict[str, Any], rows: Any, never: Callable[..., Any]) -> None:
    made = {"rule": "banditron", **options}
    here, there = Learner(classes=3, **made), Learner(classes=3, **made)
    assert stepped(here, rows) == never(lambda: stepped(there, rows))
    assert has_row_loop(here) is not has_row_loop(there)
    assert state(here) == state(there)


def test_a_sparse_row_that_is_longer_than_those_before_it(never: Callable[..., Any]) -> None:
    rows = [{f"n{place}": 1.0 for place in range(5)}] * (55)
    rows += [{f"n{place}": 0.1 * place for place in range(1536)}, rows[0]]
    here, there = Learner("banditron", classes=3), Learner("banditron", classes=3)
    assert stepped(here, rows) == never(lambda: stepped(there, rows))
    assert state(here) == state(there)


@pytest.mark.parametrize(
    "form",
    [
        lambda X: X.astype(np.float64),
        lambda X: (X * 10).astype(np.int64),
        lambda X: X > 0,
        np.asfortranarray,
        lambda X: X[:, ::-1],
        lambda X: np.frombuffer(b"?" + X.tobytes(), dtype=np.uint8)[1:].view(np.float32).reshape(X.shape),
    ],
    ids=["float64", "whole numbers", "bits", "columns", "backwards", "at odd addresses, not to be written to"],
)
def test_x_may_lie_in_memory_in_any_way(form: Callable[[Any], Any], never: Callable[..., Any]) -> None:
    here, there = Learner("banditron", classes=3), Learner("banditron", classes=3)
    rows = form(ROWS)
    assert stepped(here, rows) == never(lambda: stepped(there, np.ascontiguousarray(rows)))
    assert has_row_loop(here)
    assert state(here) == state(there)


def test_what_a_decision_keeps_is_no_view_of_what_it_was_given() -> None:
    learner = Learner("banditron", classes=3)
    stepped(learner)
    x = ROWS[0].copy()
    first, second = learner.decide(x), learner.decide(-x)
    x[:] = 9.0
    assert first.x.tolist() == ROWS[0].tolist() == (-second.x).tolist()  # type: ignore[union-attr,operator]
    assert not first.x.flags.writeable  # type: ignore[union-attr]


def test_whatever_is_replaced_is_noticed(never: Callable[..., Any]) -> None:
    def events(learner: Learner) -> list[str]:
        told = stepped(learner)
        before = learner.decide(ROWS[0], "before the class")
        learner.add_class("new")
        told += stepped(learner)
        learner.learn(before, right=True)
        learner.runtime.model.exploration_floor = 0.5
        told += stepped(learner)
        learner.remove_class(0)
        told += stepped(learner)
        with pytest.raises(InputError, match="row 1, column 0 of X is nan"):
            learner.runtime.learn_rows(
                np.array([ROWS[0], ROWS[1] * np.nan]),
                ["a", "b"],
                learner.runtime.decide_rows(ROWS[:2], [0, 1]),
                [True] * 2,
            )
        return told + stepped(copy_learner(learner)) + stepped(learner)

    here, there = Learner("linucb", classes=3), Learner("linucb", classes=3)
    assert events(here) == never(lambda: events(there))
    assert state(here) == state(there)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (ROWS[0] * np.nan, "feature 0 of x is nan"),
        (ROWS[0].astype(np.float64) * 1e300, "too large for float32 weights"),
        (ROWS[0, :-1], "x has shape"),
        (ROWS[:2], "decide_many takes many rows"),
        (np.array(["a"] * WIDTH), "must contain only numbers"),
        (None, "must contain only numbers"),
    ],
)
def test_what_is_refused_gets_its_sentence_and_changes_nothing(x: Any, sentence: str) -> None:
    learner = Learner("banditron", classes=3)
    stepped(learner)
    before = state(learner)
    with pytest.raises(InputError, match=sentence):
        learner.decide(x)
    assert state(learner) == before
    assert has_row_loop(learner)


def test_a_step_that_weights_cannot_take_leaves_nothing_behind() -> None:
    """The loop notices it after the rule has written its memory, and the calibration was told."""
    learner = Learner("banditron", classes=3)
    stepped(learner)
    model, row = learner.runtime.model, DenseRows(ROWS[:1].copy())
    choice = (0.0, 0.0, 1e-200, 0.0, 0.0, 0.0, 0.5, 0.5, np.nan)  # the third is the propensity that the rule divides by
    before = state(learner)
    assert has_row_loop(learner)
    with pytest.raises(InputError, match="the weights have overflowed float32"):
        learn_row(model, row, choice, 7, 0)
    assert state(learner) == before
    decision = learner.decide(ROWS[0])._replace(weight=1e-200)
    before = state(learner)
    with pytest.raises(InputError, match="the weights have overflowed float32"):
        learner.learn(decision, right=True)
    assert state(learner) == before
    assert has_row_loop(learner)


def test_threads_take_turns() -> None:
    learner = Learner("banditron", classes=3)
    stepped(learner)
    learnt = learner.learnt

    def step() -> None:
        for x in ROWS:
            learner.learn(learner.decide(x), right=False)

    threads = [threading.Thread(target=step) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learner.learnt == learnt + 4 * len(ROWS)
    assert np.isfinite(learner.weights).all()


def test_a_batch_with_a_step_that_weights_cannot_take_leaves_nothing_behind() -> None:
    """The loop finds it after it has learnt the row before."""
    learner = Learner("banditron", classes=3)
    stepped(learner)
    first, second = learner.decide_many(ROWS[:2])
    before = state(learner)
    with pytest.raises(InputError, match="row 1: the weights have overflowed float32"):
        learner.learn_many([first, second._replace(weight=1e-200)], [True, True])
    assert state(learner) == before
    learner.learn_many([first, second], [True, True])
    assert state(learner) != before
