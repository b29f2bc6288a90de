"""Checks of decisions: their labels, probabilities and candidates, and that deciding changes nothing."""

from __future__ import annotations

import math

import numpy as np

from onebit.checks.examples import NAMES, WIDTH, Factory, few, refused, rows, state, trained
from onebit.contract.rule import LEARNT
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner


def check_decides_before_learning(factory: Factory) -> None:
    """Check that a new learner plays one of its classes, with a valid propensity."""
    learner = factory(classes=NAMES)
    decision = learner.decide(np.ones(WIDTH) / math.sqrt(WIDTH))
    assert decision.label in NAMES
    assert decision.greedy in NAMES
    assert 0.0 < decision.propensity <= 1.0


def check_decide_is_pure(factory: Factory) -> None:
    """Check that deciding with an id, `probabilities` and `best` are repeatable and change nothing."""
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
    """Check that deciding without an id uses the next number and changes nothing else."""
    learner = trained(factory)
    before = state(learner)
    decision = learner.decide(rows(1)[0][0])
    after = state(learner)
    assert decision.id == before["next"]
    assert {**after, "next": before["next"]} == before


def check_probabilities(factory: Factory) -> None:
    """Check that probabilities sum to one, keep their floor, and are the propensities of decisions."""
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
    """Check that over many ids labels are played as often as the probabilities say, ties included.

    Each of a few hundred frequencies must be within 5.5 standard deviations: a correct learner fails about once in 100,000 runs.
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


# --- candidates: only some of the classes can be played -------------------------------------------------------------


def takes_candidates(learner: Learner) -> bool:
    """Return True if a learner can choose among some classes; if not, check that it says so."""
    if learner.runtime.rule.takes_candidates:
        return True
    x = rows(1)[0][0]
    assert "narrowing" in refused(lambda: learner.decide(x, among=NAMES[:2]))
    assert "narrowing" in refused(lambda: learner.remove_class(NAMES[0]))
    return False


def check_candidates(factory: Factory) -> None:
    """Check that probabilities are 0 outside the candidates and sum to one inside.

    Naming all classes as candidates must equal naming none.
    """
    learner = trained(factory)
    if not takes_candidates(learner):
        return
    for row, x in enumerate([*rows(20, seed=20)[0], np.zeros(WIDTH)]):
        among = few(row)
        chances = learner.probabilities(x, among=among)
        assert all(chances[name] == 0.0 for name in NAMES if name not in among), (among, chances)
        assert abs(sum(chances.values()) - 1.0) < 1e-9, chances
        decision = learner.decide(x, id=row, among=reversed(among))
        assert decision.label in among
        assert decision.greedy in among
        assert decision.propensity == chances[decision.label]
        assert decision.probabilities == {name: chance for name, chance in chances.items() if chance > 0.0}
        assert learner.decide(x, id=row, among=NAMES) == learner.decide(x, id=row)
        alone = learner.decide(x, among=among[:1])
        assert (alone.label, alone.greedy, alone.propensity) == (among[0], among[0], 1.0)


def check_frequencies_among(factory: Factory) -> None:
    """Check by a chi-square test that candidates are played as often as the probabilities say.

    With three candidates the statistic exceeds 30 with probability e^-15, and there are four tests: a correct learner fails less than once in
    100,000 runs.
    """
    count, among = 1500, NAMES[1:4]
    for learner in (factory(classes=NAMES), trained(factory)):
        if not takes_candidates(learner):
            return
        for x in [*rows(1, seed=21)[0], np.zeros(WIDTH)]:
            decisions = learner.decide_many(np.tile(x, (count, 1)), among=among)
            expected = {name: count * learner.probabilities(x, among=among)[name] for name in among}
            seen = {name: sum(decision.label == name for decision in decisions) for name in among}
            assert sum(seen.values()) == count
            rare = [name for name in among if expected[name] < 25.0]  # too rare for the chi-square statistic
            statistic = sum((seen[name] - expected[name]) ** 2 / expected[name] for name in among if name not in rare)
            assert statistic <= 30.0, f"played {seen}, and probabilities says {expected}"
            hoped = sum(expected[name] for name in rare)
            assert sum(seen[name] for name in rare) <= hoped + 6.0 * math.sqrt(hoped) + 10.0, (seen, expected)


def check_batches_among(factory: Factory) -> None:
    """Check that candidates work alike in batches and one by one, as one list or a list for each row.

    This includes decisions that were sent as JSON.
    """
    X, y = rows(30, seed=22)
    one = trained(factory)
    if not takes_candidates(one):
        return
    many = copy_learner(one)
    sets = [sorted({*few(row), NAMES[label]}) if row % 4 else None for row, label in enumerate(y)]
    singles = [one.decide(x, among=among, complete=True) for x, among in zip(X, sets, strict=True)]
    batch = many.decide_many(X, among=sets, complete=True)
    assert singles == batch
    assert [Decision.from_json(decision.to_json()) for decision in batch] == batch
    for decision, label in zip(singles, y, strict=True):
        one.learn(Decision.from_json(decision.to_json()), label=NAMES[label])
    many.learn_many(batch, labels=[NAMES[label] for label in y])
    assert state(one) == state(many)
    same = many.decide_many(X[:3], ids=["a", "b", "c"], among=NAMES[:2])
    assert same == [many.decide(x, id=name, among=NAMES[:2]) for x, name in zip(X[:3], "abc", strict=True)]


def check_one_candidate(factory: Factory) -> None:
    """Check that a round with one candidate counts as feedback, and teaches only rules that say so."""
    learner = trained(factory)
    if not takes_candidates(learner):
        return
    rule, model = learner.runtime.rule, learner.runtime.model
    learns = rule.learns_alone or rule.composite is not None
    for row, x in enumerate(rows(6, seed=23)[0]):
        before, weights, heard = model.memory[LEARNT], learner.weights, learner.learnt
        learner.learn(learner.decide(x, among=[NAMES[row % 5]], complete=row % 2 == 0), label=NAMES[row % 5])
        assert learner.learnt == heard + 1
        assert model.memory[LEARNT] == before + learns
        assert learns or np.array_equal(learner.weights, weights)


def check_retired_class(factory: Factory) -> None:
    """Check that a removed class is never played again.

    Decisions made before are still learnt, and the class keeps its place.
    """
    learner = trained(factory)
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
    learner = trained(factory)
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
