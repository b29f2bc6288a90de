"""Checks of decisions: their labels, probabilities and candidates, and that deciding changes nothing."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from onebit.checks.examples import NAMES, WIDTH, Factory, pick_names, refused, rows, state, train
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
    learner = train(factory)
    before = state(learner)
    for x in rows(5, seed=1)[0]:
        decision = learner.decide(x, id="again")
        chances, best = learner.probabilities(x), learner.best(x, id="again")
        assert learner.decide(x, id="again") == decision
        assert learner.probabilities(x) == chances
        assert best == decision.greedy
    assert state(learner) == before


def check_probabilities(factory: Factory) -> None:
    """Check that probabilities sum to one, respect the exploration floor, and equal the propensities."""
    learner = train(factory)
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
    """Check that over many ids labels are played as often as the probabilities say.

    Ties and candidates are included. Each of a few hundred frequencies must be within 5.5 standard deviations: a correct learner fails about once in 100,000 runs.
    """
    count = 4000
    for learner in (factory(classes=NAMES), train(factory)):
        for among in (None, NAMES[1:4]) if takes_candidates(learner) else (None,):
            for x in [*rows(3, seed=3)[0], np.zeros(WIDTH)]:
                counts = Counter(
                    decision.label for decision in learner.decide_many(np.tile(x, (count, 1)), among=among)
                )
                for name, chance in learner.probabilities(x, among=among).items():
                    frequency, spread = counts[name] / count, math.sqrt(chance * (1.0 - chance) / count)
                    within = abs(frequency - chance) <= 5.5 * spread + 1e-9
                    assert within, f"{name} was played with frequency {frequency}, but its probability is {chance}"


# --- candidates: only some of the classes can be played -------------------------------------------------------------


def takes_candidates(learner: Learner) -> bool:
    """Return True if a learner can choose among some classes; if not, check that it refuses to."""
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
    learner = train(factory)
    if not takes_candidates(learner):
        return
    for row, x in enumerate([*rows(20, seed=20)[0], np.zeros(WIDTH)]):
        among = pick_names(row)
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


def check_batches_among(factory: Factory) -> None:
    """Check that batches with candidates equal single decisions, also if sent as JSON.

    Candidates are one list for all rows, or a list for each row.
    """
    X, y = rows(30, seed=22)
    single = train(factory)
    if not takes_candidates(single):
        return
    batched = copy_learner(single)
    sets = [sorted({*pick_names(row), NAMES[label]}) if row % 4 else None for row, label in enumerate(y)]
    singles = [single.decide(x, among=among, complete=True) for x, among in zip(X, sets, strict=True)]
    batch = batched.decide_many(X, among=sets, complete=True)
    assert singles == batch
    assert [Decision.from_json(decision.to_json()) for decision in batch] == batch
    for decision, label in zip(singles, y, strict=True):
        single.learn(Decision.from_json(decision.to_json()), label=NAMES[label])
    batched.learn_many(batch, labels=[NAMES[label] for label in y])
    assert state(single) == state(batched)
    same = batched.decide_many(X[:3], ids=["a", "b", "c"], among=NAMES[:2])
    assert same == [batched.decide(x, id=name, among=NAMES[:2]) for x, name in zip(X[:3], "abc", strict=True)]


def check_one_candidate(factory: Factory) -> None:
    """Check that a round with one candidate counts as feedback, but is learnt only by rules that say so."""
    learner = train(factory)
    if not takes_candidates(learner):
        return
    rule, model = learner.runtime.rule, learner.runtime.model
    learns = rule.learns_alone or rule.composite is not None
    for row, x in enumerate(rows(6, seed=23)[0]):
        before, weights, learnt = model.memory[LEARNT], learner.weights, learner.learnt
        learner.learn(learner.decide(x, among=[NAMES[row % 5]], complete=row % 2 == 0), label=NAMES[row % 5])
        assert learner.learnt == learnt + 1
        assert model.memory[LEARNT] == before + learns
        assert learns or np.array_equal(learner.weights, weights)
