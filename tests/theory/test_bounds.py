"""`onebit.theory.bounds`: promises that are proved are kept by every run, and those that are false are broken by their counterexamples."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import onebit
from onebit.checks.examples import refused
from onebit.cli import main
from onebit.cli.bounds import parse_groups
from onebit.errors import OnebitError
from onebit.experiments.report import Curves, Table
from onebit.experiments.report.html import page_html
from onebit.theory.bound import Bound
from onebit.theory.mistakes import Bounds, CheckedBound, bounds
from onebit.theory.theorems import THEOREMS

Array = NDArray[np.float64]


def noisy(seed: int, count: int = 80, classes: int = 3, noise: float = 0.1) -> tuple[Array, NDArray[np.int64]]:
    """Rows of very unequal length, some of them 0, with labels of a linear classifier, some of them wrong."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, 3)) * generator.uniform(0.05, 2.0, size=(count, 1))
    y = (X @ generator.normal(size=(3, classes))).argmax(axis=1)
    y = np.where(generator.random(count) < noise, generator.integers(0, classes, count), y)
    X[generator.random(count) < 0.03] = 0.0
    return X, y


def assert_kept(found: Bounds) -> None:
    """Every bound that is proved was kept, and there is one."""
    assert not found.broken, [(one.bound.name, one.bound.value, one.measured) for one in found.broken]
    assert any(one.held for one in found.rows)


# --- proved, and kept ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", [None, "PA", "PA-I", "PA-II"])
@pytest.mark.parametrize("classes", [2, 4])
def test_bounds_of_learners_that_are_told_hold_in_every_run(variant: str | None, classes: int) -> None:
    """Nothing is left to chance but ties: 2 problems, 20 runs each, and no run may break a bound."""
    rules = ["perceptron"] if variant is None else ["passive-aggressive", "exact-pa"]
    options: dict[str, Any] = {} if variant is None else {"variant": variant}
    for rule in rules:
        for seed in (0, 3):  # without noise, and with it
            X, y = noisy(seed, classes=classes, noise=0.1 * (seed % 2))
            if variant in ("PA-I", "PA-II"):
                options["aggressiveness"] = (0.05, 3.0)[seed // 2]
            assert_kept(bounds(rule, X, y, classes=range(classes), runs=20, seed=seed, dtype="float64", **options))


@pytest.mark.parametrize(
    "options", [{}, {"variant": "PA"}, {"variant": "PA-II", "coding": "all-pairs"}, {"coding": "all-pairs"}]
)
def test_what_is_true_of_conservative_ova_holds_in_every_run(options: dict[str, Any]) -> None:
    """Theorem 1 or Corollary 1, and the lemmas on the columns: 6 problems, no run may break one."""
    for seed in range(6):
        X, y = noisy(seed, count=150)
        found = bounds("conservative-ova", X, y, classes=range(3), runs=1, seed=seed, dtype="float64", **options)
        assert_kept(found)
        names = [one.bound.name for one in found.rows]
        assert names[0] == ("Theorem 1" if "coding" in options else "Corollary 1")
        assert "Lemma 1" in names
        assert any(name.startswith("Theorem 2") for name in names) == ("coding" not in options)


@pytest.mark.parametrize("setting", ["full", "bandit"])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "smooth"])
def test_bounds_of_gaptron_hold_in_the_mean(setting: str, loss: str) -> None:
    """A mean over 100 runs lies more than its 95 % interval above the truth in one case of forty; bounds are no such close calls.

    12 bounds at an error rate of at most 2.5 % each, if they were met with equality; the seeds are fixed.
    """
    X, y = noisy(5, count=120)
    found = bounds("gaptron", X, y, runs=100, setting=setting, loss=loss, dtype="float64")
    assert_kept(found)
    numbers = {"full": {"logistic": 1, "hinge": 2, "smooth": 3}, "bandit": {"logistic": 4, "hinge": 5, "smooth": 6}}
    theorem = found[f"Theorem {numbers[setting][loss]}"]
    assert theorem.held
    lemma = found["Lemma 1"].bound
    assert lemma.assumptions["largest gap"] <= 1e-12
    assert lemma.value <= theorem.bound.value * (1 + 1e-9)  # the gaps only take away
    assert theorem.bound.line is not None
    assert theorem.bound.line[-1] <= theorem.bound.value * (1 + 1e-6) or setting == "bandit"


def test_gaptron_with_a_rate_of_its_own_has_lemma_1_alone() -> None:
    X, y = noisy(6, count=100)
    found = bounds("gaptron", X, y, runs=20, rate=0.3, exploration=0.2, loss="smooth")
    assert [one.bound.name for one in found.rows] == ["Lemma 1"]
    assert_kept(found)
    assert found.rows[0].bound.assumptions["largest gap"] > 0.0


def test_the_bound_of_banditron_holds_in_the_mean() -> None:
    """Mean of 100 runs, error rate at most 2.5 % if it were met with equality."""
    for seed in range(3):
        X, y = noisy(seed, count=200, noise=0.05)
        found = bounds("banditron", X, y, runs=100, exploration=0.3, dtype="float64")
        assert_kept(found)
        assert found.rows[0].bound.value > np.mean(found.mistakes)


def test_theorem_3_of_the_thesis_holds_in_the_mean_and_says_when_it_promises_nothing() -> None:
    """Mean of 100 runs, error rate at most 2.5 % if it were met with equality."""
    found = bounds("bandit-perceptron", "strong2d", rounds=400, runs=100)
    assert_kept(found)
    theorem = found["Theorem 3"].bound
    assert theorem.holds == ("proved" if theorem.value < 400 else "vacuous")
    assert theorem.value == 2 * math.floor(4.0 * (theorem.assumptions["R"] / theorem.assumptions["margin"]) ** 2)
    assert theorem.assumptions["margin"] >= 0.1
    weak = bounds("bandit-perceptron", "weak2d", rounds=200, runs=1)["Theorem 3"].bound
    assert (weak.value, weak.holds) == (math.inf, "vacuous")
    assert "not strongly separable" in weak.why


def test_separable_rows_have_the_bound_of_their_margin() -> None:
    found = bounds("perceptron", "weak2d", rounds=300, runs=10)
    theorem = found["Theorem 2"].bound
    assert theorem.value == math.floor(
        2.0 * (theorem.assumptions["R"] / theorem.assumptions["margin"]) ** 2 * (1 + 1e-6)
    )
    assert found["Theorem 2"].held
    X = np.array([[1.0, 0.0], [-1.0, 0.0]] * 20)
    by_hand = bounds("perceptron", X, [0, 1] * 20, runs=20)  # w = (1, 0): y <w, x> = 1 = R
    assert by_hand["Theorem 1"].bound.value == by_hand["Theorem 2"].bound.value == 1.0
    assert max(by_hand.mistakes) == 1


def test_groups_bring_theorem_6_and_the_polynomial_of_theorem_5() -> None:
    groups = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    found = bounds("bandit-perceptron", "group2d", rounds=400, runs=1, groups=groups)
    printed = found["Theorem 6 and Corollary 2, as printed"].bound
    repaired = found["Theorem 6 and Corollary 2, with sqrt(K)"].bound
    assert printed.holds == "unproved"
    assert repaired.holds == "vacuous"
    assert repaired.log_value is not None
    assert printed.log_value is not None
    assert repaired.log_value - printed.log_value == pytest.approx(math.log(3.0))  # K/L
    assert not repaired.applies
    assert found["Theorem 6 and Corollary 2, with sqrt(K)"].held is None
    (sentence,) = [note for note in found.notes if note.startswith("Theorem 5")]
    assert "1/2 is promised" in sentence
    least, most = (float(sentence.split(word)[1].split()[0]) for word in ("at least ", "at most "))
    assert least >= 0.5
    assert most <= -0.5


# --- false, and broken ---------------------------------------------------------------------------------------------------


def trap(count: int = 1000) -> tuple[Array, NDArray[np.int64]]:
    """The counterexample to Theorem 2 of Chen et al.: the rule locks in on class 0."""
    return np.vstack([[1.0, 0.0], np.tile([1.5, 1.0], (count - 1, 1))]), np.array([0] + [1] * (count - 1))


def test_the_counterexample_breaks_theorem_2_of_chen() -> None:
    X, y = trap()
    found = bounds("conservative-ova", X, y, classes=range(3), order="file", runs=30, variant="PA")
    theorem = found["Theorem 2 (27), its R restored"]
    assert theorem.bound.holds == "false"
    assert theorem.held is False
    assert theorem.bound.value < 186
    assert max(found.mistakes) >= 999
    assert not found.broken  # it is no fault of the learner's
    # Where the first tie goes to class 0 or 1 it is trapped in 198 of 300 runs: that 30 runs see fewer than 8 has a chance of 1e-6.
    trapped = sum(mistakes >= 998 for mistakes in found.mistakes)
    assert 8 <= trapped <= 29
    free = bounds(
        "conservative-ova", X, y, classes=range(3), order="file", runs=30, variant="PA", guess_if_all_negative=True
    )
    assert max(free.mistakes) < 60
    assert free["Corollary 1"].bound.holds == "false"  # it is about what is decoded, not about guesses


def leaning(count: int, lean: float = 1e-3) -> tuple[Array, NDArray[np.int64]]:
    """Orthogonal rows, each leaning a little against those before it: a learner that has erred before errs again."""
    y = np.arange(count) % 2
    sign = 1.0 - 2.0 * y
    X = np.eye(count)
    for row in range(count):
        X[row, :row] = -lean * sign[row] * sign[:row]
    return X, y


def test_the_perceptron_bound_as_quoted_by_van_der_hoeven_is_broken() -> None:
    X, y = leaning(40)
    found = bounds("perceptron", X, y, runs=10, dtype="float64")
    quoted = found["Perceptron, as quoted"]
    assert quoted.bound.holds == "false"
    assert quoted.held is False
    assert min(found.mistakes) > 1.3 * quoted.bound.value
    assert_kept(found)
    assert found["Theorem 1"].bound.value >= 40


def test_lemma_4_of_chen_is_broken() -> None:
    X, y = leaning(200, 1e-4)
    found = bounds("passive-aggressive", X, y, runs=5, aggressiveness=10.0, dtype="float64")
    lemma = found["Lemma 4, Kesler's construction"]
    assert lemma.bound.holds == "false"
    assert lemma.held is False
    assert_kept(found)


def test_lemma_2_of_chen_is_broken_by_short_rows_with_wrong_labels() -> None:
    size = 20
    one = np.vstack([np.full((1, size), 0.01 / math.sqrt(size)), np.eye(size)])
    X, y = np.tile(one, (size, 1)), np.tile([1] + [0] * size, size)
    found = bounds("passive-aggressive", X, y, runs=3, variant="PA", dtype="float64")
    lemma = found["Lemma 2, Kesler's construction"]
    assert lemma.bound.holds == "false"
    assert lemma.held is False
    assert_kept(found)


# --- what is said of them ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "number"), [("PA", 3), ("PA-I", 4), ("PA-II", 5)])
def test_the_theorems_on_epabf_are_called_unread(variant: str, number: int) -> None:
    X, y = noisy(1)
    found = bounds("epabf", X, y, runs=1, variant=variant)
    printed = found.rows[0]
    assert printed.bound.name.startswith(f"Theorem {number} ")
    assert printed.bound.holds == "unread"
    assert math.isnan(printed.bound.value)
    assert printed.held is None
    assert printed.bound.why
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_bound_that_is_not_below_the_rounds_is_called_vacuous() -> None:
    assert Bound("b", "p", "s", 100.0).judge(100).holds == "vacuous"
    assert Bound("b", "p", "s", 99.0).judge(100).holds == "proved"
    assert Bound("b", "p", "s", 1e9, holds="false").judge(100).holds == "false"
    assert Bound("b", "p", "s", 1e9, of="squared loss").judge(100).holds == "proved"
    assert (
        Bound("b", "p", "s", 60.0, of="mistakes at first", assumptions={"rounds looked at": 50}).judge(100).holds
        == "vacuous"
    )


def test_a_bound_in_expectation_is_held_against_the_interval_of_the_mean() -> None:
    runs = (8.0, 10.0, 12.0, 10.0)
    assert CheckedBound(Bound("b", "p", "s", 11.0), runs).held is False
    assert CheckedBound(Bound("b", "p", "s", 12.0), runs).held is True
    assert CheckedBound(Bound("b", "p", "s", 9.5, setting="in expectation"), runs).held is True
    assert CheckedBound(Bound("b", "p", "s", 5.0, setting="in expectation"), runs).held is False
    assert CheckedBound(Bound("b", "p", "s", 9.0, setting="in expectation"), (10.0,)).held is False
    assert CheckedBound(Bound("b", "p", "s", math.nan), runs).held is None


def test_every_run_meets_the_same_rows_and_the_measured_are_those_of_onebit_run() -> None:
    X, y = noisy(2)
    found = bounds("perceptron", X, y, runs=3, seed=4, order="shuffle", rounds=100)
    order = np.random.default_rng([15, 4])
    rows = np.concatenate([order.permutation(len(X)) for _ in range(2)])[:100]
    again = onebit.run("perceptron", X[rows], y[rows], order="file", runs=3, seed=4)
    assert found.mistakes == (again.errors * 100).round().astype(int).tolist()


def test_the_page_has_the_table_and_the_curves() -> None:
    X, y = noisy(3)
    found = bounds("gaptron", X, y, runs=3, setting="full", loss="hinge", command="onebit bounds")
    page = found.page()
    assert next(part.title for part in page.parts if isinstance(part, Table)) == "Bounds"
    curves = [part for part in page.parts if isinstance(part, Curves)]
    assert len(curves) == 1
    names = [one.name for one in curves[0].series]
    assert names[0] == "mistakes of gaptron"
    assert "Theorem 2" in names
    assert ("all rounds" in names) == (found["Theorem 2"].bound.holds == "vacuous")
    assert curves[0].series[0].measures["mistakes"].mean[-1] == pytest.approx(np.mean(found.mistakes))
    text = page_html(page)
    assert "Theorem 2" in text


def test_sparse_rows_and_a_bias_give_the_bounds_of_the_rows_they_stand_for() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    X, y = noisy(7, noise=0.0)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("perceptron", {}),
        ("conservative-ova", {"variant": "PA"}),
        ("gaptron", {"setting": "full"}),
    ]
    for rule, options in cases:
        dense = bounds(rule, X, y, runs=1, dtype="float64", bias=True, **options)
        same = bounds(rule, sparse.csr_array(X), y, runs=1, dtype="float64", bias=True, **options)
        wide = bounds(rule, np.hstack([X, np.ones((len(X), 1))]), y, runs=1, dtype="float64", **options)
        for other in (same, wide):
            assert [one.bound.name for one in other.rows] == [one.bound.name for one in dense.rows]
            for one, its in zip(dense.rows, other.rows, strict=True):
                assert its.bound.value == pytest.approx(one.bound.value, rel=0.02)


def test_what_has_no_bound_is_refused_with_a_sentence() -> None:
    X, y = noisy(4)
    assert "no bound for bpa" in refused(lambda: bounds("bpa", X, y))
    assert "kernel" in refused(lambda: bounds("banditron", X, y, kernel="rbf"))
    assert "runs is 0" in refused(lambda: bounds("perceptron", X, y, runs=0))
    assert "no parameter 'exploration'" in refused(lambda: bounds("perceptron", X, y, exploration=0.1))
    assert "at once" in refused(lambda: bounds("perceptron", X, y, delay=3))
    with pytest.raises(OnebitError, match="there is no bound 'Theorem 9'"):
        bounds("epabf", X, y, runs=1)["Theorem 9"]


# --- the command ---------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_table_says_why_and_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X, y = trap(200)
    np.savez(tmp_path / "trap.npz", X=X, y=y, classes=[0, 1, 2])
    arguments = ["bounds", "conservative-ova", str(tmp_path / "trap.npz"), "--set", "variant=PA", "--quiet"]
    assert main([*arguments, "--out", str(tmp_path / "out"), "--runs", "8"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for word in ("Corollary 1", "Theorem 2", "false", "locks in", "kept", "page:"):
        assert word in out
    assert "Corollary 1" in (tmp_path / "out" / "page.html").read_text()
    assert main([*arguments, "--out", str(tmp_path / "out"), "--runs", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["runs"] == 2
    assert {one["name"] for one in told["bounds"]} >= {"Corollary 1", "Lemma 1", "Lemma 2"}


def test_bad_input_to_the_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["bounds", "bpa", "weak2d"],
        ["bounds", "perceptron", "weak3d"],
        ["bounds", "perceptron", "weak2d", "--delay", "fixed:3"],
        ["bounds", "bandit-perceptron", "group2d", "--groups", "0,1//2"],
    ):
        assert main([*arguments, "--rounds", "50"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1


def test_groups_are_read_as_they_are_written() -> None:
    assert parse_groups(None) is None
    assert parse_groups("0,1/cat,-3") == [["0", "1"], ["cat", "-3"]]


def test_every_rule_with_theorems_is_a_rule() -> None:
    assert set(THEOREMS) <= set(onebit.rules.registry())
