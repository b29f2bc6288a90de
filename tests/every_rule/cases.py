"""Every rule of the registry with its option sets, in families: a file, and so a process, compiles what a family shares.

The composite one, `auto`, is in `tests/auto/test_keeping.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from onebit.checks.examples import NAMES, rows, state
from onebit.contract.candidates import candidates_at, pack_candidates
from onebit.engine.schedule import NO_REWARDS, NOTHING, Schedule, list_events
from onebit.engine.stream import DECIDE, LEARN, Tally
from onebit.errors import InputError
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner, learner_class
from onebit.rules import registry
from tests.every_rule.around_rules import CHECKS
from tests.oracles.base import Decided
from tests.oracles.draws import draws
from tests.slow import ON_DEMAND, WHOLE

FAMILIES = {
    "first order": [name for name, rule in registry().items() if rule.second_order is None and not rule.composite],
    "second order": [name for name, rule in registry().items() if rule.second_order is not None and not rule.composite],
    "composite": [name for name, rule in registry().items() if rule.composite],
}

# --- every check ---------------------------------------------------------------------------------------------------------

EXAMPLES = {
    name: {f"{name}-{n}": options for n, options in enumerate(registry()[name].examples)} for name in registry()
}

# What a learner cannot meet, and why.
EXCEPTIONS: dict[tuple[str, str], str] = {}


WHOLE_ONLY = (
    "forms",
    "compiled_is_python",
)  # of dense rows alone the one says nothing, and the other is for the longer tier


def is_whole(name: str) -> bool:
    """Whether `make test` has sparse rows of a rule, and compiles its steps for known labels."""
    return name in WHOLE or registry()[name].composite is not None


def marks_of(name: str, check: str, whole: bool) -> Sequence[pytest.MarkDecorator]:
    """In plain Python a rule takes long, and a composite one very long; its twin is compared always."""
    if check == "compiled_is_python":
        return ON_DEMAND if registry()[name].composite else (pytest.mark.long,)
    return (pytest.mark.long,) if whole and not is_whole(name) else ()


def checks_of(family: str) -> pytest.MarkDecorator:
    """Every example of a family's rules with every check."""
    return pytest.mark.parametrize(
        ("name", "options", "check", "whole"),
        [
            pytest.param(
                name,
                options,
                check,
                whole,
                id=f"{case}-{check}{'' if whole else '-dense'}",
                marks=marks_of(name, check, whole),
            )
            for name in FAMILIES[family]
            for case, options in EXAMPLES[name].items()
            for check in CHECKS
            for whole in ((True,) if is_whole(name) or check in WHOLE_ONLY else (True, False))
        ],
    )


def made(name: str, options: dict[str, Any], **common: Any) -> Learner:
    return learner_class(registry()[name])(**{**options, **common})


def made_dense(name: str, options: dict[str, Any], **common: Any) -> Learner:
    """A learner for dense rows; others are refused, as a rule with full matrices does."""
    if common.get("space") == "sparse":
        raise InputError("sparse rows are for the longer tier")
    return made(name, options, **common)


def assert_passes(name: str, options: dict[str, Any], check: str, whole: bool) -> None:
    if (name, check) in EXCEPTIONS:
        pytest.skip(EXCEPTIONS[name, check])
    CHECKS[check](partial(made if whole else made_dense, name, options))


# --- slow twins ----------------------------------------------------------------------------------------------------------

CLASSES, FEATURES, ROUNDS, SEED = 6, 7, 250, 5

# Option sets beyond the rules' own examples, which must fit any number of classes.
EXTRA: dict[str, list[dict[str, Any]]] = {
    "conservative-ova": [
        *({"wrong": "played", "variant": variant, "aggressiveness": 0.3} for variant in ("PA", "PA-I", "PA-II")),
        *(
            {"coding": coding, "decoding": decoding, "wrong": wrong, "aggressiveness": 0.3}
            for decoding in ("loss", "hamming")
            for wrong in ("strict", "lenient")
            for coding in (
                "one-vs-all",
                "all-pairs",
                [[1, 0, 1, -1], [-1, 1, 0, -1], [-1, -1, 1, 0], [1, 1, -1, 1], [-1, 0, -1, 1], [-1, 1, 1, 1]],
            )
        ),
    ],
    "gaptron": [
        {"setting": setting, "loss": loss, "horizon": 1000, "radius": radius, "max_norm": 6.0}
        for setting in ("bandit", "full")
        for loss in ("logistic", "hinge", "smooth")
        for radius in (0.3, 20.0)
    ],
    "offset-tree": [
        {"stop": stop, "kind": kind, "weighting": weighting, "aggressiveness": 0.2}
        for stop in ("none", "after", "before", "path")
        for kind, weighting in (("realizable", "weighted"), ("general", "weighted"), ("general", "costing"))
    ]
    + [{"kind": "general", "weighting": "costing", "variant": "PA", "exploration": 0.3}],
    "epabf": [
        {"update": update, "variant": variant, "wrong": wrong, "exploration": 0.3, "aggressiveness": 0.5}
        for update in ("printed", "stated", "others")
        for variant in ("PA", "PA-I", "PA-II")
        for wrong in ("all", "played")
    ],
}
ACCURACY = {"thompson": 2e-3}  # of probabilities that have no closed form; 1e-9 elsewhere
# How many classes, and whether feedback is late. The further option sets are played with half of the combinations.
WAYS = [(CLASSES, False), (CLASSES, True), (2, False), (2, True)]
FEWER = [(CLASSES, True), (2, False)]


def twins_of(family: str) -> pytest.MarkDecorator:
    """Every option set of a family's rules, against the twin."""
    return pytest.mark.parametrize(
        ("name", "options", "classes", "late"),
        [
            pytest.param(name, options, classes, late, id=f"{name}-{n}-{classes}-{'late' if late else 'at once'}")
            for name in FAMILIES[family]
            for n, options in enumerate([*EXAMPLES[name].values(), *EXTRA.get(name, [])])
            for classes, late in (WAYS if n < len(EXAMPLES[name]) else FEWER)
        ],
    )


def twin_module(name: str) -> Any:
    """Return the module of the slow twin of a rule."""
    return importlib.import_module(f"tests.oracles.{name.replace('-', '_')}")


def oracle_of(name: str, options: dict[str, Any], classes: int) -> Any:
    module = twin_module(name)
    own = {"seed": SEED} if registry()[name].composite else {}  # which draws its random waves from the seed
    return module.Oracle(classes, FEATURES, **{**registry()[name].defaults, **options, **own})


def stream(seed: int, classes: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Noisy rows around class centres, some of them 0: mistakes of every kind occur."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(classes, FEATURES))
    y = generator.integers(0, classes, size=ROUNDS)
    X = 0.6 * centres[y] + 0.5 * generator.normal(size=(ROUNDS, FEATURES))
    X *= np.minimum(1.0, 5.9 / np.linalg.norm(X, axis=1))[:, None]
    X[::41] = 0.0
    return X, y


def assert_equals_its_oracle(name: str, options: dict[str, Any], classes: int, late: bool) -> None:
    """The compiled rule and its slow twin, round by round: decisions, probabilities and weights, feedback also late."""
    if classes == 2 and isinstance(options.get("coding"), list):
        options = {**options, "coding": [[1, 0, 1], [-1, 1, -1]]}
    learner = Learner(name, classes=classes, features=FEATURES, space="dense", dtype="float64", seed=SEED, **options)
    oracle = oracle_of(name, options, classes)
    oracle.accompany(learner)
    X, y = stream(11, classes)
    waiting: list[tuple[Any, Decided, int]] = []
    order = np.random.default_rng(3)
    for row in range(ROUNDS):
        found = list(learner.probabilities(X[row]).values())  # before the decision, on which they do not depend
        decision, decided = learner.decide(X[row]), oracle.decide(X[row], draws(SEED, row, 0))
        where = f"round {row}"
        assert (decision.label, decision.greedy) == (decided.label, decided.greedy), where
        np.testing.assert_allclose(decision.weight, decided.weight, rtol=1e-9, err_msg=where)
        np.testing.assert_allclose(decision.notes, (decided.note, decided.second_note), atol=1e-8, err_msg=where)
        chances = oracle.probabilities(X[row])
        near = ACCURACY.get(name, 1e-9)
        np.testing.assert_allclose(found, chances, rtol=0, atol=near, err_msg=where)
        np.testing.assert_allclose(decision.propensity, chances[decided.label], rtol=0, atol=near, err_msg=where)
        waiting.append((decision, decided, row))
        while waiting and (not late or len(waiting) > 8):
            learnt, known, then = waiting.pop(int(order.integers(len(waiting))) if late else 0)
            told = int(y[then]) if learner.runtime.needs_labels or known.label == y[then] else -1
            if learner.runtime.needs_labels:
                learner.learn(learnt, label=told)
            else:
                learner.learn(learnt, right=told >= 0)
            oracle.learn(X[then], known, told, draws(SEED, then, 1))
            np.testing.assert_allclose(learner.weights, oracle.W, rtol=1e-7, atol=1e-7, err_msg=where)


# --- candidates, rewards and truths -----------------------------------------------------------------------------------------


def chosen_among(generator: np.random.Generator, classes: int, label: int | None) -> list[int]:
    """Some of the classes, one at least, in rising order; with a label, that one among them."""
    found = set(generator.choice(classes, size=int(generator.integers(1, classes + 1)), replace=False).tolist())
    return sorted(found if label is None else found | {label})


def varied_twins_of(family: str) -> pytest.MarkDecorator:
    """Every option set of a family's rules, against the twin, where everything may be asked and said."""
    return pytest.mark.parametrize(
        ("name", "options", "late"),
        [
            pytest.param(name, options, n % 2 == 0, id=f"{name}-{n}")
            for name in FAMILIES[family]
            for n, options in enumerate([*EXAMPLES[name].values(), *EXTRA.get(name, [])])
        ],
    )


def assert_equals_its_oracle_among(
    name: str, options: dict[str, Any], late: bool, learner: Learner | None = None, oracle: Any = None, form: Any = list
) -> None:
    """Rule and twin with random candidates, answered by right and wrong, a reward or the truth, at once or late.

    `form` makes of rows what the learner is shown of them.
    """
    if learner is None:
        learner = Learner(
            name, classes=CLASSES, features=FEATURES, space="dense", dtype="float64", seed=SEED, **options
        )
        oracle = oracle_of(name, options, CLASSES)
    oracle.accompany(learner)
    labelled = learner.runtime.needs_labels
    X, y = stream(12, CLASSES)
    shown = form(X)
    generator = np.random.default_rng(21)
    waiting: list[tuple[Any, Decided, int, list[int], bool]] = []
    for row in range(ROUNDS):
        where = f"round {row}"
        complete = labelled or bool(generator.random() < 0.5)
        among = chosen_among(generator, CLASSES, int(y[row]) if complete else None)
        found = np.array(list(learner.probabilities(shown[row], among=among).values()))
        decision = learner.decide(shown[row], among=among, complete=complete)
        decided = oracle.decide_among(X[row], draws(SEED, row, 0), among)
        assert (decision.label, decision.greedy) == (decided.label, decided.greedy), where
        assert decision.among == (None if len(among) == CLASSES else tuple(among)), where
        np.testing.assert_allclose(decision.weight, decided.weight, rtol=1e-9, err_msg=where)
        np.testing.assert_allclose(decision.notes, (decided.note, decided.second_note), atol=1e-8, err_msg=where)
        chances, near = oracle.probabilities_among(X[row], among, CLASSES), ACCURACY.get(name, 1e-9)
        np.testing.assert_allclose(found, chances, rtol=0, atol=near, err_msg=where)
        assert not np.delete(found, among).any(), where
        assert abs(found.sum() - 1.0) < 1e-12, where
        assert decision.propensity == found[decision.label], where
        assert decision.probabilities == {label: found[label] for label in range(CLASSES) if found[label] > 0.0}, where
        waiting.append((decision, decided, row, among, complete or len(among) == CLASSES))
        while waiting and (not late or len(waiting) > 8):
            known = waiting.pop(int(generator.integers(len(waiting))) if late else 0)
            _answer(learner, oracle, X[known[2]], int(y[known[2]]), known, int(generator.integers(3)))
            np.testing.assert_allclose(learner.weights, oracle.W, rtol=1e-7, atol=1e-7, err_msg=where)


REWARDS = (0.0, 0.25, 0.6, 1.0)


def _answer(learner: Learner, oracle: Any, x: Any, label: int, known: Any, how: int) -> None:
    """Tell both what came of a decision: the label, or a bit, a reward or the truth."""
    decision, decided, row, among, complete = known
    told, reward = label if label == decided.label else -1, float(label == decided.label)
    if learner.runtime.needs_labels:
        learner.learn(decision, label=label)
        told = label
    elif how == 1:
        reward = REWARDS[row % len(REWARDS)]
        learner.learn(decision, reward=reward)
        told = decided.label if draws(SEED, row, 5)(0) < reward else -1
    elif how == 2 and label in among:
        learner.learn(decision, truth=label)
        if learner.runtime.rule.teach is not None and len(among) > 1:
            if x.any() or learner.runtime.rule.composite:
                oracle.correct(x, label, draws(SEED, row, 6), among)
            return
    else:
        learner.learn(decision, right=told >= 0)
    oracle.hear(x, decided, told, draws(SEED, row, 1), reward, among, complete)


# --- streams with candidates, rewards and corrections -----------------------------------------------------------------------

WALKED, CORRECTIONS = 90, 0.4


CORRECTED = ("corrections", "everything, late")  # where steps for known labels are compiled


def walks_of(family: str) -> pytest.MarkDecorator:
    """The first option set of a family's rules, in each kind of stream."""
    return pytest.mark.parametrize(
        ("name", "kind"),
        [
            pytest.param(
                name,
                kind,
                id=f"{name}-{kind}",
                marks=(pytest.mark.long,) if kind in CORRECTED and not is_whole(name) else (),
            )
            for name in FAMILIES[family]
            for kind in ("candidates", "rewards", *CORRECTED)
        ],
    )


def schedule_of(kind: str, y: Any) -> Schedule:
    """The schedule of a stream: sets with the label in them, rewards for every class and row, some labels revealed, late answers."""
    generator = np.random.default_rng(31)
    schedule, late = Schedule(labels=y.astype(np.int64)), kind == "everything, late"
    if kind == "candidates" or late:
        sets = [chosen_among(generator, len(NAMES), int(label)) for label in y]
        schedule = schedule._replace(among=pack_candidates(sets, complete=True))
    if kind == "rewards" or late:
        worth = np.where(generator.random((len(y), len(NAMES))) < 0.5, generator.random((len(y), len(NAMES))), 0.0)
        worth[np.arange(len(y)), y] = 1.0
        schedule = schedule._replace(rewards=worth)
    if kind == "corrections" or late:
        schedule = schedule._replace(corrections=CORRECTIONS)
    if late:
        rounds = np.arange(len(y))
        answers = np.where(generator.random(len(y)) < 0.1, -1, rounds + generator.integers(0, 6, len(y)))
        schedule = schedule._replace(events=list_events(answers), order=rounds)
    return schedule


def assert_walks_as_it_steps(name: str, kind: str) -> None:
    """A walk over a schedule is deciding and learning by hand, bit for bit, and counts mistakes and rewards."""
    X, y = rows(WALKED, seed=32)
    options = dict(registry()[name].examples[0])
    assert_walks_rows_as_it_steps(
        made(name, options, classes=NAMES, features=X.shape[1], space="dense", seed=SEED), X, y, kind
    )


def assert_walks_rows_as_it_steps(walker: Learner, X: Any, y: Any, kind: str) -> None:
    """The same of a learner with the seed SEED, and these rows."""
    schedule, stepper = schedule_of(kind, y), copy_learner(walker)
    if walker.runtime.needs_labels and len(schedule.rewards):
        schedule = schedule._replace(rewards=NO_REWARDS)
    runtime, kept, tally = walker.runtime, schedule.choices, Tally.empty(np.array([WALKED], dtype=np.int64))
    table = runtime.read_table(X)
    for start, stop in ((0, 40), (40, schedule.steps)):
        runtime.walk(table, schedule, kept, tally, start, stop)
    runtime.finish_walk(schedule)
    decisions: dict[int, Decision] = {}
    for event in schedule.events if len(schedule.events) else 4 * np.arange(WALKED) + (DECIDE | LEARN):
        now, label = int(event) // 4, NAMES[y[int(event) // 4]]
        if event & DECIDE:
            sets = [NAMES[place] for place in candidates_at(schedule.among, now)] if len(schedule.among) else None
            decisions[now] = stepper.decide(X[now], among=sets, complete=True)
        if event & LEARN:
            _hear_in_stream(stepper, decisions[now], label, schedule, now)
    assert {**state(walker), "identity": ""} == {**state(stepper), "identity": ""}
    played = [decisions[now].label for now in range(WALKED)]
    if not len(schedule.rewards):
        assert tally.mistakes[0] == sum(label != NAMES[truth] for label, truth in zip(played, y, strict=True))
    else:  # where the right class is worth 1
        worth = [float(schedule.rewards[now, NAMES.index(str(label))]) for now, label in enumerate(played)]
        assert tally.mistakes[0] == sum(reward < 1.0 for reward in worth)
        np.testing.assert_allclose([tally.rewards[0], tally.reward_curve[0, 0]], sum(worth), rtol=1e-12)


def _hear_in_stream(learner: Learner, decision: Decision, label: str, schedule: Schedule, now: int) -> None:
    """What the stream says of a decision, by hand."""
    worth = float(decision.label == label)
    if len(schedule.rewards):
        worth = float(schedule.rewards[now, NAMES.index(str(decision.label))])
    if learner.runtime.needs_labels:
        learner.learn(decision, label=label)
    elif worth < 1.0 and draws(SEED, now, 7)(0) < schedule.corrections:
        learner.learn(decision, truth=label)
    elif len(schedule.rewards):
        learner.learn(decision, reward=worth)
    else:
        learner.learn(decision, right=decision.label == label)


def assert_errs_less_among_few(name: str) -> None:
    """With 5 of 26 classes, the right one among them, fewer labels are wrong than with all, in each of 5 streams."""
    for seed in range(5):
        X, y = rows(500, seed=seed, classes=26, width=12)
        generator, wrong = np.random.default_rng(seed), []
        few = [
            sorted({*generator.permutation(np.delete(np.arange(26), label))[:4].tolist(), int(label)}) for label in y
        ]
        for sets in ([], few):
            learner = made(name, dict(registry()[name].examples[0]), classes=26, features=12, space="dense", seed=seed)
            schedule = Schedule(
                labels=y.astype(np.int64), among=pack_candidates(sets, complete=True) if sets else NOTHING
            )
            tally = Tally.empty(NOTHING)
            learner.runtime.walk(learner.runtime.read_rows(X), schedule, schedule.choices, tally, 0, schedule.steps)
            wrong.append(int(tally.mistakes[0]))
        assert wrong[1] < wrong[0], f"seed {seed}"
