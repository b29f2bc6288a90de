"""EPABF: the exact steps are minimisers, and the printed ones are what they are.

Exactness is shown twice: against a QP solver on the program over W itself, and by a certificate (the optimality
conditions of a strictly convex program have one solution) on many random problems. Instances come from fixed seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from onebit.rules import bpa, epabf, exact_pa
from tests.rules.steps import (
    WRONG,
    Mask,
    Matrix,
    Vector,
    bench_of,
    decision,
    probabilities_of,
    shuffled,
    step,
    taught,
    unit,
)

RULE = epabf.RULE
VARIANTS = ("PA", "PA-I", "PA-II")


@dataclass(frozen=True)
class Problem:
    """One step of EPABF: scores, norm, the price C, the label played, and the paper's a (0 when wrong)."""

    variant: str
    scores: Vector
    norm: float
    price: float
    label: int
    a: float

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.scores)

    @property
    def rivals(self) -> list[int]:
        """All labels but the one played."""
        return [row for row in range(self.classes) if row != self.label]

    @property
    def needs(self) -> Vector:
        """g of the paper: what each constraint lacks before the step; that of the played label without cancellation."""
        return self.lacks(self.scores)

    def lacks(self, scores: Vector) -> Vector:
        """How much each constraint a s_y - s_r >= 1 is missed by at these scores."""
        missing = 1.0 - self.a * scores[self.label] + scores
        missing[self.label] = 1.0 - (self.a - 1.0) * scores[self.label]
        return np.asarray(missing)

    def taken(self, update: str, wrong: str = "all") -> Vector:
        """The step of the rule."""
        bench = bench_of(
            RULE, self.classes, variant=self.variant, aggressiveness=self.price, update=update, wrong=wrong
        )
        revealed = self.label if self.a > 0.0 else WRONG
        weight = 1.0 / self.a if self.a > 0.0 else 0.1
        coefficients = step(bench, self.scores, self.norm, self.label, revealed, self.label, weight)
        assert coefficients.scale == 1.0
        return coefficients.coefficients

    def after(self, coefficients: Vector) -> Vector:
        """The scores after a step."""
        return np.asarray(self.scores + self.norm * coefficients)

    def rival_steps(self, coefficients: Vector) -> Vector:
        """The multipliers of the rivals."""
        return np.asarray(-coefficients[self.rivals])

    def own_step(self, coefficients: Vector) -> float:
        """(a - 1) times the multiplier of the constraint r = y."""
        return float(coefficients[self.label] - self.a * self.rival_steps(coefficients).sum())

    def objective(self, coefficients: Vector, own: bool) -> float:
        """Half the squared length of the step and the price of the slack; infinite where a constraint is missed."""
        slack = np.maximum(0.0, self.lacks(self.after(coefficients)))
        if not own:
            slack[self.label] = 0.0
        length = 0.5 * self.norm * float(coefficients @ coefficients)
        if self.variant == "PA":
            return length if slack.max() <= 1e-9 * self.size(coefficients) else np.inf
        return length + self.price * float(slack.sum() if self.variant == "PA-I" else slack @ slack)

    def size(self, coefficients: Vector) -> float:
        """The size of the numbers that rounding is relative to."""
        after = self.after(coefficients)
        own = abs(self.scores[self.label]) + abs(after[self.label])
        pull = self.norm * abs(self.rival_steps(coefficients)).sum()
        return float(1.0 + abs(self.scores).max() + (1.0 + self.a) * (own + pull))

    def certificate(self, coefficients: Vector, own: bool) -> float:
        """The largest violation of the optimality conditions, relative to the numbers involved.

        Each multiplier must be the projection of itself plus what its constraint lacks: an equation that holds exactly
        where multiplier and slack complement each other.
        """
        lacks = self.lacks(self.after(coefficients))
        steps = -coefficients * self.norm
        ceiling = np.full(self.classes, self.norm * self.price if self.variant == "PA-I" else np.inf)
        damping = 0.5 / (self.price * self.norm) if self.variant == "PA-II" else 0.0
        if self.a > 0.0:
            # The constraint r = y is scaled by (a - 1)/a: a - 1 may be tiny, so nothing is divided by it.
            share = (self.a - 1.0) / self.a
            steps[self.label] = self.own_step(coefficients) * self.norm / self.a
            if not own:
                ceiling[self.label] = 0.0
            elif self.variant == "PA-I":
                ceiling[self.label] *= share
            elif self.variant == "PA-II":
                lacks[self.label] *= share
        projected = np.clip(steps + lacks - damping * steps, 0.0, ceiling)
        return float(abs(steps - projected).max()) / self.size(coefficients)


def problems(variant: str, many: int, seed: int, low: float, high: float, most: int = 12) -> Iterator[Problem]:
    """Random problems with a between two bounds (log-uniform in a - 1); (0, 0) means wrong answers."""
    generator = np.random.default_rng([seed, VARIANTS.index(variant)])
    for _ in range(many):
        classes = int(generator.integers(2, most + 1))
        scores = generator.normal(size=classes) * 10.0 ** generator.uniform(-1.5, 0.8)
        if generator.uniform() < 0.1:
            scores = np.round(scores)  # ties
        yield Problem(
            variant,
            scores,
            float(10.0 ** generator.uniform(-1.0, 1.0)),
            float(10.0 ** (generator.integers(-8, 5) / 4)),  # few prices, so that few benches must be settled
            int(generator.integers(classes)),
            0.0 if high == 0.0 else 1.0 + float(np.exp(generator.uniform(np.log(low - 1.0), np.log(high - 1.0)))),
        )


def same(first: Vector, second: Vector) -> bool:
    """Whether two steps are equal but for rounding."""
    return bool(np.allclose(first, second, rtol=1e-8, atol=1e-9 * (abs(first).max() + abs(second).max())))


# ---- the exact steps


def solved(problem: Problem, own: bool, weights: Matrix, x: Vector) -> tuple[Matrix, float]:
    """The minimiser over all matrices W by Clarabel, and its objective: knows nothing of score space."""
    cp: Any = pytest.importorskip("cvxpy")
    new = cp.Variable(weights.shape)
    slack = cp.Variable(problem.classes, nonneg=True)
    cost: Any = 0.5 * cp.sum_squares(new - weights)
    if problem.variant == "PA-I":
        cost = cost + problem.price * cp.sum(slack)
    elif problem.variant == "PA-II":
        cost = cost + problem.price * cp.sum_squares(slack)
    allowed: Any = np.zeros(problem.classes) if problem.variant == "PA" else slack
    constraints = [
        (problem.a * new[problem.label] - new[row]) @ x >= 1.0 - allowed[row]
        for row in range(problem.classes)
        if own or row != problem.label
    ]
    program = cp.Problem(cp.Minimize(cost), constraints)
    program.solve(solver=cp.CLARABEL)
    assert program.status == cp.OPTIMAL
    assert new.value is not None
    return np.asarray(new.value, dtype=np.float64), float(program.value)


@pytest.mark.long
@pytest.mark.parametrize("update", ["stated", "others"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("classes", [2, 3, 5, 9, 14, 20])
def test_exact_steps_against_a_solver(update: str, variant: str, classes: int) -> None:
    """W after the step is Clarabel's to 1e-4 of its size, and its objective is not worse; a from 0 (wrong) to 40."""
    generator = np.random.default_rng(classes)
    for a in (0.0, 1.02, 1.3, 3.0, 40.0):
        weights, x = generator.normal(size=(classes, 3)), generator.normal(size=3)
        problem = Problem(
            variant,
            weights @ x,
            float(x @ x),
            float(10.0 ** generator.uniform(-1.5, 0.5)),
            int(generator.integers(classes)),
            a,
        )
        own = update == "stated" or a == 0.0
        coefficients = problem.taken(update)
        reference, least = solved(problem, own, weights, x)
        distance = abs(weights + np.outer(coefficients, x) - reference).max()
        assert distance <= 1e-4 * (1.0 + abs(reference).max())
        assert problem.objective(coefficients, own) <= least * (1.0 + 1e-6) + 1e-7


@pytest.mark.parametrize("update", ["stated", "others"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 0.0), (1.001, 1.1), (1.05, 4.0), (4.0, 1e5)], ids=["wrong", "greedy", "middle", "explored"]
)
def test_exact_steps_carry_a_certificate(update: str, variant: str, low: float, high: float) -> None:
    """300 problems for each reading, variant and range of a, K from 2 to 20: optimality to 1e-12, relative."""
    own_was_active = 0
    for problem in problems(variant, 300, seed=1, low=low, high=high, most=20):
        own = update == "stated" or problem.a == 0.0
        coefficients = problem.taken(update)
        assert problem.certificate(coefficients, own) <= 1e-12, problem
        own_was_active += problem.own_step(coefficients) > 1e-9 * problem.size(coefficients)
    assert own_was_active > 15 or update == "others" or high == 0.0


def test_the_certificate_refuses_wrong_steps() -> None:
    """The check above can fail: a step that is 0.1 % off in one row, or that of another reading, does not pass."""
    for variant in VARIANTS:
        refused = 0
        for problem in problems(variant, 50, seed=2, low=1.05, high=4.0):
            coefficients = problem.taken("stated")
            if not coefficients.any():
                continue
            largest = int(abs(coefficients).argmax())
            nudge = 1e-3 * coefficients[largest] * unit(problem.classes, largest)
            assert problem.certificate(coefficients + nudge, True) > 1e-9
            others = problem.taken("others")
            if not same(others, coefficients):
                assert problem.certificate(others, True) > 1e-9
                refused += 1
        assert refused > 5


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_exact_step_at_a_hundred_thousand_keeps_its_digits(variant: str) -> None:
    """a = K/gamma = 1e5: supported rivals of EPABF meet their constraint to 1e-9 (a difference of sums: 1e-5)."""
    for problem in problems(variant, 100, seed=3, low=0.99e5, high=1.01e5):
        for update in ("stated", "others"):
            coefficients = problem.taken(update)
            lacks = problem.lacks(problem.after(coefficients))[problem.rivals]
            if variant == "PA":
                supported = problem.rival_steps(coefficients) > 0.0
                assert (abs(lacks[supported]) <= 1e-9 * (1.0 + abs(problem.scores).max())).all()
                assert (lacks <= 1e-9 * (1.0 + abs(problem.scores).max())).all()
            assert problem.certificate(coefficients, update == "stated") <= 1e-12


@pytest.mark.parametrize("variant", VARIANTS)
def test_exact_steps_cost_least(variant: str) -> None:
    """objective(stated) <= objective of printed and others where those are feasible, and the same without r = y."""
    compared, strictly = 0, 0
    for problem in problems(variant, 400, seed=4, low=1.01, high=20.0):
        steps = {update: problem.taken(update) for update in ("printed", "stated", "others")}
        for best, own in (("stated", True), ("others", False)):
            least = problem.objective(steps[best], own)
            assert np.isfinite(least)
            for coefficients in steps.values():
                cost = problem.objective(coefficients, own)
                assert least <= cost * (1.0 + 1e-9) + 1e-12
                compared += np.isfinite(cost)
                strictly += np.isfinite(cost) and least < cost * (1.0 - 1e-6)
    assert compared > 400 * 2 + 200
    assert strictly > 20


@pytest.mark.parametrize("gamma", [0.1, 0.01, 1e-4])
def test_what_the_stated_program_does_to_the_played_score(gamma: float) -> None:
    """In a right, greedy round it asks (a-1) w_y.x >= 1, so the score jumps to 1/(a-1): 12, 132, 13,000 for K = 4."""
    bench = bench_of(RULE, 4, exploration=gamma, variant="PA", update="stated")
    scores = np.array([0.3, 0.1, 0.0, -0.2])
    choice = next(
        choice for choice in (decision(bench, scores, 1.0, number) for number in range(50)) if choice.label == 0
    )
    after = scores + step(bench, scores, 1.0, 0, 0, 0, choice.propensity).coefficients
    excess = gamma * 0.75 / (1.0 - gamma * 0.75)
    assert after[0] == pytest.approx(1.0 / excess, rel=1e-9)
    calm = bench_of(RULE, 4, exploration=gamma, variant="PA", update="others")
    assert scores[0] < scores[0] + step(calm, scores, 1.0, 0, 0, 0, choice.propensity).coefficients[0] < 1.0


# ---- wrong answers


@pytest.mark.parametrize("update", ["printed", "stated", "others"])
def test_a_wrong_answer_pushes_every_score_below_minus_one(update: str) -> None:
    """EPABF, a = 0: the true class too. Rows that were below stay."""
    for problem in problems("PA", 300, seed=5, low=0.0, high=0.0):
        coefficients = problem.taken(update)
        after = problem.after(coefficients)
        assert np.allclose(after, np.minimum(problem.scores, -1.0), rtol=0, atol=1e-12 * problem.size(coefficients))
        assert (coefficients[problem.scores <= -1.0] == 0.0).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_on_wrong_answers_printed_is_stated(variant: str) -> None:
    """First line of the table in 5.3: always, for all three; and "others" with wrong = all is the same step."""
    moved = 0
    for problem in problems(variant, 300, seed=6, low=0.0, high=0.0):
        stated = problem.taken("stated")
        assert np.allclose(problem.taken("printed"), stated, rtol=1e-12, atol=0)
        assert np.array_equal(problem.taken("others"), stated)
        moved += bool(stated[problem.rivals].any())
    assert moved > 100


@pytest.mark.parametrize("variant", VARIANTS)
def test_others_played_is_the_step_of_bpa_on_wrong_answers(variant: str) -> None:
    """Only the played row moves; right answers do not feel the option."""
    for problem in problems(variant, 100, seed=7, low=0.0, high=0.0):
        played = problem.taken("others", wrong="played")
        reference = bench_of(bpa.RULE, problem.classes, variant=variant, aggressiveness=problem.price)
        assert np.array_equal(played, step(reference, problem.scores, problem.norm, problem.label, WRONG).coefficients)
        assert np.array_equal(played, played[problem.label] * unit(problem.classes, problem.label))
    for problem in problems(variant, 50, seed=8, low=1.01, high=20.0):
        assert np.array_equal(problem.taken("others"), problem.taken("others", wrong="played"))


# ---- the printed steps


@dataclass(frozen=True)
class Printed:
    """The printed step of a problem, taken apart into the paper's multipliers (for a clearly above 1)."""

    problem: Problem
    coefficients: Vector
    steps: Vector  # lam of the paper

    @property
    def support(self) -> Mask:
        """Which classes are in S."""
        return np.asarray(self.steps > 1e-9 * (abs(self.steps).max() + 1e-300))

    @property
    def own(self) -> bool:
        """Whether the played label is in S."""
        return bool(self.support[self.problem.label])

    @property
    def at_the_cap(self) -> Mask:
        """Which multipliers have reached C (PA-I)."""
        return np.asarray(self.steps >= self.problem.price * (1.0 - 1e-6))

    @property
    def losses(self) -> Vector:
        """l of the paper."""
        return np.maximum(0.0, self.problem.needs)

    @property
    def damping(self) -> float:
        """e of the paper."""
        return 0.5 / (self.problem.price * self.problem.norm) if self.problem.variant == "PA-II" else 0.0

    def shift(self) -> float:
        """q of the paper, from its formula for this support."""
        a, label = self.problem.a, self.problem.label
        count, total = int(self.support.sum()), float(self.losses[self.support].sum())
        divisor = 1.0 + count * a**2 + self.damping
        if self.own:
            return float((a * self.losses[label] - a**2 * total) / (divisor - a))
        return -(a**2) * total / divisor


def printed(problem: Problem) -> Printed:
    """The printed step and its multipliers."""
    coefficients = problem.taken("printed")
    steps = -coefficients
    steps[problem.label] = problem.own_step(coefficients) / (problem.a - 1.0)
    return Printed(problem, coefficients, steps)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("low", "high"), [(1.05, 4.0), (4.0, 1000.0)], ids=["middle", "explored"])
def test_printed_steps_follow_their_own_formula(variant: str, low: float, high: float) -> None:
    """lam = (l + q)/(n (1 + e)), at most C in PA-I, on S; S is what the search keeps; nothing is negative.

    For PA-I this says that the sweeps have settled: each class is in S if and only if its own formula is positive.
    """
    supported = 0
    for problem in problems(variant, 500, seed=9, low=low, high=high):
        step_taken = printed(problem)
        tolerance = 1e-7 * (abs(step_taken.steps).max() + 1e-9)
        formula = (step_taken.losses + step_taken.shift()) / (problem.norm * (1.0 + step_taken.damping))
        if variant == "PA-I":
            formula = np.minimum(problem.price, formula)
        assert (step_taken.steps >= -tolerance).all()
        assert np.allclose(step_taken.steps[step_taken.support], formula[step_taken.support], rtol=1e-7, atol=tolerance)
        assert (formula[~step_taken.support] <= tolerance).all()
        supported += bool(step_taken.support.sum() > 1)
    assert supported > 40


@pytest.mark.parametrize("variant", VARIANTS)
def test_printed_without_the_played_label_in_the_support(variant: str) -> None:
    """Lines 2 and 3 of the table: printed = others always (PA-I: below C), and = stated iff (a-1) beta0 >= g_y."""
    met, missed = 0, 0
    for problem in problems(variant, 700, seed=10, low=1.05, high=20.0):
        step_taken = printed(problem)
        if step_taken.own or not step_taken.coefficients.any():
            continue
        if variant == "PA-I" and step_taken.at_the_cap.any():
            continue
        assert same(step_taken.coefficients, problem.taken("others"))
        beta = problem.norm * step_taken.coefficients[problem.label]
        spare = (problem.a - 1.0) * beta - problem.needs[problem.label]
        if abs(spare) > 1e-6:
            assert same(step_taken.coefficients, problem.taken("stated")) == (spare >= 0.0)
            met += spare >= 0.0
            missed += spare < 0.0
    assert met > 30
    assert missed > 30


@pytest.mark.parametrize("variant", VARIANTS)
def test_printed_with_the_played_label_in_the_support_is_no_minimiser(variant: str) -> None:
    """Fourth and fifth line: never that without r = y; never the stated one, but for PA-I where all of S sits at C."""
    met, capped = 0, 0
    for problem in problems(variant, 700, seed=11, low=1.05, high=20.0):
        step_taken = printed(problem)
        if not step_taken.own:
            continue
        met += 1
        assert not same(step_taken.coefficients, problem.taken("others"))
        equal = same(step_taken.coefficients, problem.taken("stated"))
        if variant == "PA-I" and step_taken.at_the_cap[step_taken.support].all():
            capped += 1
        else:
            assert not equal
    assert met > 100
    assert capped > 10 or variant != "PA-I"


def test_the_constraint_that_a_printed_step_misses() -> None:
    """EPABF, y in S: rivals in S hold with equality, and r = y is missed by exactly a (sum lam) n."""
    met = 0
    for problem in problems("PA", 700, seed=12, low=1.05, high=20.0):
        step_taken = printed(problem)
        if not step_taken.own:
            continue
        met += 1
        lacks = problem.lacks(problem.after(step_taken.coefficients))
        rivals = step_taken.support & (np.arange(problem.classes) != problem.label)
        tolerance = 1e-9 * problem.size(step_taken.coefficients)
        assert np.allclose(lacks[rivals], 0.0, rtol=0, atol=tolerance)
        missed = problem.a * step_taken.steps.sum() * problem.norm
        assert lacks[problem.label] == pytest.approx(missed, rel=1e-8, abs=tolerance)
    assert met > 100


@pytest.mark.parametrize("variant", ["PA", "PA-II"])
def test_a_printed_step_lies_between_the_two_readings(variant: str) -> None:
    """With y in S, the step of row y lies between that without r = y and the stated one (not so for PA-I)."""
    met = 0
    for problem in problems(variant, 700, seed=13, low=1.05, high=20.0):
        step_taken = printed(problem)
        if not step_taken.own:
            continue
        met += 1
        own = step_taken.coefficients[problem.label]
        ends = sorted(problem.taken(update)[problem.label] for update in ("others", "stated"))
        tolerance = 1e-9 * problem.size(step_taken.coefficients) / problem.norm
        assert ends[0] - tolerance <= own <= ends[1] + tolerance
    assert met > 100


@pytest.mark.parametrize("variant", ["PA", "PA-II"])
def test_the_printed_shift_is_a_weighted_mean(variant: str) -> None:
    """With y in S, q is the mean of the value without r = y (weight 1 + (m-1)a^2 + e) and of -l_y (weight a^2 - a)."""
    met = 0
    for problem in problems(variant, 800, seed=14, low=1.05, high=20.0):
        step_taken = printed(problem)
        rivals = step_taken.support & (np.arange(problem.classes) != problem.label)
        if not step_taken.own or not rivals.any():
            continue
        met += 1
        a, damping = problem.a, step_taken.damping
        weight = 1.0 + int(rivals.sum()) * a**2 + damping
        without = -(a**2) * step_taken.losses[rivals].sum() / weight
        own_loss = step_taken.losses[problem.label]
        mean = (weight * without - (a**2 - a) * own_loss) / (weight + a**2 - a)
        for row in np.flatnonzero(rivals):
            observed = step_taken.steps[row] * problem.norm * (1.0 + damping) - step_taken.losses[row]
            assert observed == pytest.approx(mean, rel=1e-7, abs=1e-9 * problem.size(step_taken.coefficients))
    assert met > 100


# ---- limits and symmetries


def at_one(variant: str, many: int, seed: int) -> Iterator[Problem]:
    """Right answers with a = 1, as without exploration."""
    for problem in problems(variant, many, seed, low=1.5, high=2.0):
        yield Problem(variant, problem.scores, problem.norm, problem.price, problem.label, 1.0)


def test_at_a_equal_to_one_epabf_is_exact_pa() -> None:
    """Printed and others give the step of docs/explanation/algorithms-first-order.md#exact-pa, for EPABF itself."""
    moved = 0
    for problem in at_one("PA", 300, seed=15):
        reference = bench_of(exact_pa.RULE, problem.classes, variant="PA")
        exact = step(reference, problem.scores, problem.norm, problem.label, problem.label).coefficients
        for update in ("printed", "others"):
            assert same(problem.taken(update), exact)
        moved += bool(exact.any())
    assert moved > 100


@pytest.mark.parametrize("variant", VARIANTS)
def test_at_a_equal_to_one_printed_is_the_minimiser_without_r_equal_y(variant: str) -> None:
    """Last line of the table: EPABF and II always, I below C; stated drops its constant constraint (I, II)."""
    met = 0
    for problem in at_one(variant, 400, seed=16):
        others = problem.taken("others")
        if variant != "PA":
            assert same(problem.taken("stated"), others)
        if variant != "PA-I" or (problem.rival_steps(others) < problem.price * (1.0 - 1e-9)).all():
            met += bool(others.any())
            assert same(problem.taken("printed"), others)
    assert met > 80


@pytest.mark.parametrize("variant", VARIANTS)
def test_teaching_is_the_minimiser_at_a_equal_to_one(variant: str) -> None:
    """With the label known nothing is divided by, whatever the reading."""
    for problem in at_one(variant, 100, seed=19):
        for update in ("printed", "stated", "others"):
            bench = bench_of(
                RULE, problem.classes, variant=variant, aggressiveness=problem.price, update=update, exploration=0.3
            )
            lesson = taught(bench, problem.scores, problem.norm, problem.label)
            assert lesson.scale == 1.0
            assert problem.certificate(lesson.coefficients, own=False) <= 1e-12


@pytest.mark.parametrize("update", ["printed", "stated", "others"])
@pytest.mark.parametrize("variant", ["PA-I", "PA-II"])
def test_a_large_c_gives_epabf(update: str, variant: str) -> None:
    """C = 1e10 stands for infinity."""
    for low, high in ((0.0, 0.0), (1.05, 20.0)):
        for problem in problems(variant, 100, seed=17, low=low, high=high):
            plain = Problem("PA", problem.scores, problem.norm, 1.0, problem.label, problem.a).taken(update)
            held = Problem(variant, problem.scores, problem.norm, 1e10, problem.label, problem.a).taken(update)
            assert np.allclose(held, plain, rtol=1e-5, atol=1e-7 * (1.0 + abs(plain).max()))


@pytest.mark.parametrize("update", ["printed", "stated", "others"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_renaming_the_classes_renames_the_step(update: str, variant: str) -> None:
    """For right and wrong answers."""
    generator = np.random.default_rng(18)
    for low, high in ((0.0, 0.0), (1.01, 20.0)):
        for problem in problems(variant, 80, seed=18, low=low, high=high):
            order = generator.permutation(problem.classes).tolist()
            renamed = Problem(
                variant, shuffled(problem.scores, order), problem.norm, problem.price, order[problem.label], problem.a
            )
            taken, moved = problem.taken(update), renamed.taken(update)
            assert np.allclose(shuffled(taken, order), moved, rtol=1e-9, atol=1e-11 * problem.size(taken))


@pytest.mark.parametrize("variant", VARIANTS)
def test_identical_rows_stay_identical(variant: str) -> None:
    """Rivals with bit-equal scores get bit-equal steps, in every reading: ties must survive."""
    scores = np.array([0.05, 0.1, 0.1, 0.1, -0.3])
    for a in (0.0, 1.05, 7.0):
        for update in ("printed", "stated", "others"):
            coefficients = Problem(variant, scores, 0.7, 0.2, 0, a).taken(update)
            assert coefficients[1] == coefficients[2] == coefficients[3]
            assert coefficients.any()


def test_two_classes_by_hand() -> None:
    """K = 2, s = 0, n = 1, a = 2, one rival: beta = a g/(1 + a^2) = 0.4 without r = y; (a-1) s_y >= 1 asks for 1."""
    problem = Problem("PA", np.zeros(2), 1.0, 1.0, 0, 2.0)
    assert np.allclose(problem.taken("others"), [0.4, -0.2], rtol=0, atol=1e-15)
    assert np.allclose(problem.taken("stated"), [1.0, 0.0], rtol=0, atol=1e-15)
    # Both l are 1 and S = {0, 1}: D = 1 + 8 - 2, q = (2 - 8)/7, lam = 1/7 each, row 0 gets 2 (2/7) - 1/7.
    assert np.allclose(problem.taken("printed"), [3 / 7, -1 / 7], rtol=0, atol=1e-15)


def test_the_weight_and_the_probabilities_are_epsilon_greedy() -> None:
    """a = 1/P with P = 1 - gamma + gamma/K for the greedy label, also when exploration happened to draw it."""
    bench = bench_of(RULE, 5, exploration=0.4)
    scores = np.array([0.0, 0.1, 0.9, 0.2, 0.3])
    paper = np.full(5, 0.08) + 0.6 * unit(5, 2)
    assert np.allclose(probabilities_of(bench, scores, 1.0), paper, rtol=0, atol=1e-15)
    seen = {
        choice.label: choice.propensity for choice in (decision(bench, scores, 1.0, number) for number in range(200))
    }
    assert seen == pytest.approx(dict(enumerate(paper)), abs=1e-15)
