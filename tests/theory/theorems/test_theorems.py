"""The theorems themselves: what is true of them on any data, and the counterexamples to those that are false."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onebit.contract.steps import Variant, step_size
from onebit.data import plane
from onebit.errors import OnebitError
from onebit.rules.conservative_ova import RULE as OVA
from onebit.rules.epabf import EPABF, Played, mark_by_walking
from onebit.rules.gaptron import Gaptron, Loss, bandit_constants
from onebit.theory.theorems import arora2020, chen2009, hoeven2020, passive_aggressive, prompak2017
from onebit.theory.theorems.perceptron import banditron_bound, general_bound

Array = NDArray[np.float64]

# --- Chen et al. 2009 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3, 5, 9])
def test_the_distance_of_the_usual_codings_is_that_of_the_paper(classes: int) -> None:
    for coding, rho in (("one-vs-all", 2.0), ("all-pairs", (classes * (classes - 1) / 2 - 1) / 2 + 1)):
        params, memory = OVA.settle(classes, {"coding": coding})
        matrix, _ = chen2009.coding_matrix(params, memory)
        assert chen2009.coding_distance(matrix) == rho


def test_signs_after_wrong_answers_are_those_of_the_rule() -> None:
    params, memory = OVA.settle(4, {"coding": "all-pairs"})
    right, wrong = chen2009.coding_matrix(params, memory)
    assert (wrong == -right).all()  # lenient: against the class that was wrong
    params, memory = OVA.settle(4, {})
    right, wrong = chen2009.coding_matrix(params, memory)
    assert (right == 2.0 * np.eye(4) - 1.0).all()
    assert (wrong == -np.eye(4)).all()


def test_theorem_1_holds_for_any_scores_and_any_coding() -> None:
    """Whatever the scores, a class decoded wrongly has an own loss of at least rho: it is a fact of one round."""
    generator = np.random.default_rng(0)
    wrong = 0
    for _ in range(300):
        classes, columns = int(generator.integers(2, 6)), int(generator.integers(1, 8))
        matrix = generator.integers(-1, 2, size=(classes, columns)).astype(float)
        rho = chen2009.coding_distance(matrix)
        scores = generator.normal(0.0, generator.choice([0.3, 1.0, 3.0]), size=(20, columns))
        distance = np.maximum(0.0, 1.0 - matrix[None] * scores[:, None]).sum(axis=2)
        decoded = distance.argmin(axis=1)
        for label in range(classes):
            missed = decoded != label
            wrong += int(missed.sum())
            loss = chen2009.sum_losses(matrix, scores[missed], np.full(int(missed.sum()), label))
            assert rho * missed.sum() <= loss + 1e-9
    assert wrong > 1000


def binary_run(X: Array, z: Array, variant: int, aggressiveness: float) -> tuple[Array, Array]:
    """The losses and steps of a binary passive-aggressive learner that steps in every round."""
    w, losses, steps = np.zeros(X.shape[1]), [], []
    for x, sign in zip(X, z, strict=True):
        loss = max(0.0, 1.0 - sign * float(w @ x))
        step = step_size(variant, aggressiveness, loss, float(x @ x))
        w = w + sign * step * x
        losses.append(loss)
        steps.append(step)
    return np.array(losses), np.array(steps)


def test_the_lemmas_hold_for_every_comparator_where_they_are_proved() -> None:
    """Deterministic: 200 noisy sequences, each with five comparators of its own."""
    generator = np.random.default_rng(1)
    for number in range(200):
        X = generator.normal(size=(40, 3)) * generator.uniform(0.05, 3.0, size=(40, 1))
        z = np.sign(X @ generator.normal(size=3) + generator.normal(0.0, 0.5, 40))
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        C = float(generator.choice([0.01, 0.3, 10.0]))
        for rows in (X, unit):
            squared = np.square(rows).sum(axis=1)
            R = math.sqrt(squared.max())
            for variant in Variant:
                loss, step = binary_run(rows, z, variant, C)
                for _ in range(5):
                    u = generator.normal(size=3) * generator.choice([0.0, 0.5, 3.0])
                    norm, star = float(np.linalg.norm(u)), np.maximum(0.0, 1.0 - z * (rows @ u))
                    assert (step * (2 * loss - step * squared - 2 * star)).sum() <= norm**2 + 1e-9, number
                    square = float(np.square(loss).sum())
                    if variant == Variant.PA:
                        assert square <= passive_aggressive.lemma2_for_any_rows(norm, star, squared) * (1 + 1e-9)
                        if rows is unit:
                            assert square <= passive_aggressive.lemma2(norm, star, 1.0) * (1 + 1e-9)
                    elif variant == Variant.PA_II:
                        assert square <= passive_aggressive.lemma3(norm, star, R, C) * (1 + 1e-9)
                    else:
                        assert loss.sum() <= passive_aggressive.lemma4_with_rounds(norm, star, R, C) * (1 + 1e-9)
                        late = float((loss >= 1.0).sum())
                        assert late <= passive_aggressive.mistakes_of_pa1(norm, star, R, C) * (1 + 1e-9)


def test_lemma_2_is_false_for_rows_of_unequal_length() -> None:
    X, z = np.array([[1.0], [0.01], [1.0]]), np.array([1.0, -1.0, 1.0])
    loss, _ = binary_run(X, z, Variant.PA, 1.0)
    star = np.maximum(0.0, 1.0 - z * X[:, 0])  # of u = 1
    square = np.square(loss).sum()
    assert square > 10_000
    assert passive_aggressive.lemma2(1.0, star, 1.0) < 10
    assert square < passive_aggressive.lemma2_for_any_rows(1.0, star, np.square(X[:, 0]))


def test_lemma_4_is_false_without_the_rounds_in_its_root() -> None:
    count, C = 200, 10.0
    loss, _ = binary_run(np.eye(count), np.ones(count), Variant.PA_I, C)
    nothing = np.zeros(count)  # the loss of u = (1, ..., 1)
    assert loss.sum() == count > 5 * passive_aggressive.lemma4(math.sqrt(count), nothing, 1.0, C)
    assert loss.sum() <= passive_aggressive.lemma4_with_rounds(math.sqrt(count), nothing, 1.0, C)


def test_theorem_2_with_its_lost_r_on_the_counterexample_is_what_the_notes_say() -> None:
    X = np.vstack([[1.0, 0.0], np.tile([1.5, 1.0], (999, 1))])
    y = np.array([0] + [1] * 999)
    U = np.array([[1.0, -2.5], [-1.0, 2.5], [-1.0, 0.5]])
    signs = (2.0 * np.eye(3) - 1.0)[y]
    losses = np.maximum(0.0, 1.0 - signs * (X @ U.T))
    assert losses.max() == 0.0
    value = chen2009.theorem2(Variant.PA, np.linalg.norm(U, axis=1), losses, math.sqrt(3.25), 1.0)
    assert math.floor(value) == 185


# --- Arora and Manwani 2020 ----------------------------------------------------------------------------------------------


def in_support(losses: Sequence[float], own: int, position: int, a: float, damping: float = 0.0) -> bool:
    """Whether the theorems put the class at `position` of the descending order into the support.

    `losses` are in descending order, `own` is the position of the played class among them, a = 1[right]/P, damping e.
    """
    before = list(losses[:position])
    divisor = 1.0 + position * a * a + damping
    if own < position:
        return losses[position] > (a * a * sum(before) - a * losses[own]) / (divisor - a)
    return losses[position] > a * a * sum(before) / divisor


def support_size(losses: Sequence[float], own: int, a: float, damping: float = 0.0) -> int:
    """How many classes of the descending order are in the support: the largest k that meets the condition, among positive losses."""
    fitting = [k for k in range(len(losses)) if losses[k] > 0.0 and in_support(losses, own, k, a, damping)]
    return max(fitting, default=-1) + 1


@pytest.mark.parametrize("variant", [Variant.PA, Variant.PA_II])
def test_theorems_1_and_2_give_the_support_that_the_rule_takes(variant: Variant) -> None:
    generator = np.random.default_rng(2)
    inside, own_inside = 0, 0
    for _ in range(2000):
        classes = int(generator.integers(2, 8))
        params = EPABF(classes, variant=variant, aggressiveness=float(generator.choice([0.05, 1.0])))
        label, a = int(generator.integers(classes)), float(generator.choice([0.0, 1.05, 2.0, 30.0]))
        scores = generator.normal(0.0, 0.7, classes)
        norm = float(generator.uniform(0.2, 3.0))
        damping = 0.5 / (params.aggressiveness * norm) if variant == Variant.PA_II else 0.0
        losses = np.maximum(0.0, 1.0 - a * scores[label] + scores)
        order = np.argsort(-losses, kind="stable")
        marks = np.zeros(classes)
        played = Played(label, losses[label], a, damping)
        mark_by_walking(params, played, losses[order], order.astype(float), marks)
        own = int(np.flatnonzero(order == label)[0])
        size = support_size(losses[order].tolist(), own, a, damping)
        assert marks[order].tolist() == [1.0] * size + [0.0] * (classes - size)
        inside += size
        own_inside += marks[label] == 1.0
    assert inside > 2000
    assert own_inside > 200


def test_theorem_5_as_read_changes_where_no_run_does() -> None:
    """Scaling x by c and C by 1/c^2 leaves every run as it is: a bound that it changes cannot be meant."""
    assert arora2020.theorem5_as_read(1.0, 1.0, 3, 100) != pytest.approx(arora2020.theorem5_as_read(10.0, 0.01, 3, 100))
    C, c = 0.3, 4.0
    damped = [step_size(Variant.PA_II, C / s**2, 0.7, 1.3 * s**2) * s for s in (1.0, c)]
    assert damped[0] == pytest.approx(damped[1] * c)  # w shrinks by c as x grows: the scores stay


# --- van der Hoeven 2020 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", list(Loss))
def test_the_regret_is_what_the_constants_of_the_rule_give(loss: Loss) -> None:
    """Theorems 4-6 say no less than Lemma 1 does with the rate and the exploration that the rule uses."""
    generator = np.random.default_rng(3)
    tight = 0
    for _ in range(500):
        params = Gaptron(
            int(generator.integers(2, 12)),
            loss=loss,
            radius=float(10 ** generator.uniform(-2, 1.5)),
            max_norm=float(10 ** generator.uniform(-1, 1)),
            horizon=float(10 ** generator.uniform(0, 6)),
        )
        rate, exploration = bandit_constants(params)
        lemma = params.radius**2 / (2 * rate) + exploration * (params.classes - 1) / params.classes * params.horizon
        regret = hoeven2020.regret(params)
        assert lemma <= regret * (1 + 1e-9)
        tight += lemma >= 0.7 * regret
    assert tight > 100  # the constants are those of the theorem, and not merely small


# --- the perceptron and Banditron ----------------------------------------------------------------------------------------


def test_the_general_bounds_solve_their_inequalities() -> None:
    generator = np.random.default_rng(4)
    for _ in range(200):
        loss, norm, longest = generator.uniform(0, 500), generator.uniform(0, 5), generator.uniform(0.1, 3)
        gamma, classes, count = generator.uniform(0.01, 0.5), int(generator.integers(2, 10)), 1000
        M = banditron_bound(loss, norm, longest, classes, gamma, count) - gamma * count
        root = longest * norm * math.sqrt((1 + classes / gamma) * M + 2 * gamma * count)
        assert math.isclose(M, loss + root, rel_tol=1e-9)
        exact = np.roots([1.0, -math.sqrt(2) * longest * norm, -loss]).max() ** 2  # of M = L + sqrt(D M)
        assert exact <= general_bound(loss, norm, longest) * (1 + 1e-9)


# --- Prompak 2017 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("margin", [0.9, 0.5, 0.2])
def test_logarithms_of_margins_agree_with_their_formulas(classes: int, margin: float) -> None:
    degree = math.ceil(math.log2(2 * classes - 2)) * math.ceil(math.sqrt(2 / margin))
    first = (376 * degree) ** (-degree / 2) / (2 * math.sqrt(classes)) if degree else 1 / (2 * math.sqrt(classes))
    r, s = 2 * math.ceil(math.log2(4 * classes - 3) / 4) + 1, math.ceil(math.log2(2 / margin))
    second = (2 ** (s + 1) * r * (classes - 1) * (4 * s + 2)) ** (-(s + 0.5) * r * (classes - 1))
    second /= 4 * math.sqrt(classes) * (4 * classes - 5) * 2 ** (classes - 1)
    assert prompak2017.log_margin_weak(classes, margin) == pytest.approx(math.log(max(first, second)))
    degree = math.ceil(math.log2(2 * classes + 2)) * math.ceil(math.sqrt(2 / margin))
    third = (840.0 * degree) ** (-degree / 2) / (9 * math.sqrt(classes))
    assert prompak2017.log_margin_group(classes, margin, classes) == pytest.approx(math.log(third))


def test_margins_that_overflow_have_a_logarithm_and_impossible_ones_a_sentence() -> None:
    assert -1e9 < prompak2017.log_margin_group(3, 1e-6, 9) < -1e4
    assert -1e9 < prompak2017.log_margin_weak(100, 1e-6) < -1e4
    with pytest.raises(OnebitError, match="above 0"):
        prompak2017.log_margin_weak(3, 0.0)


def test_the_second_transformation_wins_where_the_margin_is_tiny() -> None:
    """For few classes and a tiny margin log^2(1/g) beats sqrt(1/g)."""
    degree = 2 * math.ceil(math.sqrt(2 / 1e-9))
    first = -degree / 2 * math.log(376 * degree) - math.log(2 * math.sqrt(3))
    assert prompak2017.log_margin_weak(3, 1e-9) > first / 10


def test_chebyshev_polynomials_meet_their_recurrence() -> None:
    z = np.linspace(-2.0, 2.5, 91)
    two, one = np.ones_like(z), z
    for degree in range(2, 12):
        two, one = one, 2.0 * z * one - two
        assert np.allclose(prompak2017.chebyshev(degree, z), one, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "vectors", "margin"),
    [
        (plane.group2d, plane.group2d_vectors(), 0.02),
        (plane.group2d_radial, plane.group2d_radial_vectors(), 0.05),
        (plane.group2d_unequal, plane.group2d_unequal_vectors(), 0.02),
    ],
    ids=["equal", "radial", "unequal"],
)
def test_the_polynomial_of_theorem_5_separates_the_group_sets(
    make: Callable[..., Any], vectors: plane.GroupVectors, margin: float
) -> None:
    rows, y = make(3000, 0, margin)
    X = rows.astype(np.float64)
    counts = [len(cuts) + 1 for cuts in vectors.thresholds]
    starts = np.cumsum([0, *counts])
    groups = [list(range(first, last)) for first, last in itertools.pairwise(starts.tolist())]
    values = prompak2017.polynomial_values(X, y, groups, vectors.between, vectors.within, margin)
    own = np.arange(sum(counts)) == y[:, None]
    assert values[own].min() >= 0.5
    assert values[~own].max() <= -0.5
    wrong = prompak2017.polynomial_values(X, y, groups, vectors.between, vectors.within, 10 * margin)
    assert wrong[own].min() < 0.5 or wrong[~own].max() > -0.5  # a degree that is too low does not


def log_polynomial_norm(halfspaces: int, margin: float) -> float:
    """The natural logarithm of Theorem 5's bound on the length of the polynomial's coefficients."""
    power, degree = prompak2017.polynomial_degree(halfspaces, margin)
    return math.log(4.5) + 0.5 * power * degree * math.log(420.0 * power * degree)


@pytest.mark.parametrize("v", [1.0, math.sqrt(2.0)])
def test_the_polynomial_keeps_its_bounds_for_vectors_as_long_as_theorem_6_has_them(v: float) -> None:
    """In one dimension with one halfspace, where the coefficients can be written down. Theorem 5 is stated for lengths up to 1, and
    Theorem 6 applies it to u_g - u_j, whose length may be sqrt(2)."""
    from numpy.polynomial import Polynomial
    from numpy.polynomial.chebyshev import Chebyshev

    for margin in (0.9, 0.4, 0.2):
        power, degree = prompak2017.polynomial_degree(1, margin)
        T = Chebyshev.basis(degree).convert(kind=Polynomial)
        low, high = -0.5, 0.6
        terms = [Polynomial([1.0, -v]), Polynomial([1.0 + low / 2, -0.5]), Polynomial([1.0 - high / 2, 0.5])]
        p = Polynomial([3.5]) - sum(T(term) ** power for term in terms)
        assert p.degree() == power * degree
        x = np.linspace(-1.0, 1.0, 401)
        direct = prompak2017.separating_polynomial(x[:, None], np.array([[v]]), np.array([1.0]), low, high, margin)
        assert np.allclose(p(x), direct, rtol=1e-6, atol=1e-6)
        inside = (v * x >= margin) & (x >= low + margin) & (x <= high - margin)
        outside = (v * x <= -margin) | (x <= low - margin) | (x >= high + margin)
        assert inside.any() == (margin < 0.3)
        assert direct[inside].min(initial=0.5) >= 0.5
        assert direct[outside].max(initial=-0.5) <= -0.5
        for term in terms:
            assert float(np.linalg.norm(T(term).coef)) ** 2 <= (105.0 * degree) ** degree
        assert math.log(np.linalg.norm(p.coef)) <= log_polynomial_norm(1, margin)


def test_the_constants_of_theorem_5_cover_vectors_of_length_sqrt_2() -> None:
    """||f||^2 is at most 3 then. The proof's chain with 3^(2j) ends at 105, and with the 3^j that it needs below the printed 47."""
    chebyshev = (1.0 + math.sqrt(2.0)) ** 2
    for s in range(1, 200):
        rest = math.log(s + 1.0) + s * math.log(s) + s * math.log(chebyshev)
        assert rest + 2 * s * math.log(3.0) <= s * math.log(105.0 * s)
        assert rest + s * math.log(3.0) <= s * math.log(47.0 * s)


def test_a_class_without_rows_has_no_polynomial() -> None:
    with pytest.raises(OnebitError, match="class 1 has no rows"):
        prompak2017.polynomial_values(np.zeros((1, 2)), np.array([0]), [[0, 1]], np.ones((1, 2)), np.ones((1, 2)), 0.1)
