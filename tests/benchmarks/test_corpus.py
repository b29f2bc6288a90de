"""The stress corpus judges fairly: the interval of a ratio, the choice on other seeds, the two halves, and runs that are done once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from benchmarks.__main__ import main
from benchmarks.corpus import TOLERANCE, Judgement, judge_stream, ratio_of
from benchmarks.corpus_runs import AUTO, Entrant, Unit, best_fixed, fixed_entrants, missing_units, run_unit, run_units
from benchmarks.streams.corpus import CHOOSE, CORPUS, FORMS, REPORT, CorpusStream
from benchmarks.streams.recipes import Drawn, Recipe, dense, generator_of
from benchmarks.streams.tables import linear

from benchmarks import corpus, corpus_runs
from onebit.errors import OnebitError
from onebit.experiments.statistics import estimate
from onebit.experiments.trials import Trial
from onebit.experiments.trials.records import Record, Records
from tests.experiments.trials.records import record

SHORT = "200 rounds, two classes"
BANDITRON, LINUCB = Entrant("banditron"), Entrant("linucb", ("unit-norm",))


class Told:
    """Records that were never run: the error of each trial as a function of the rule, the preparation and the seed."""

    def __init__(self, error: Callable[[Entrant, int], float | None]) -> None:
        self._error = error

    def get(self, trial: Trial) -> Record | None:
        error = self._error(Entrant(trial.entry.rule.name, trial.stream.source.prepare), trial.seed)
        return None if error is None else record(error=error)


# --- the interval -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_has_the_ratios_that_the_pairs_do_not_contradict(seed: int) -> None:
    generator = np.random.default_rng(seed)
    hard = generator.normal(0.3, 0.05, 12)
    ours, theirs = 1.2 * hard + generator.normal(0.0, 0.01, 12), hard + generator.normal(0.0, 0.01, 12)
    found = ratio_of(ours.tolist(), theirs.tolist())
    for tried in np.linspace(0.8, 1.6, 81):
        left = estimate(ours - tried * theirs)
        assert (left.low <= 0.0 <= left.high) == (found.low <= tried <= found.high)
    assert found.low < found.value < found.high


def test_pairs_take_out_what_makes_a_seed_hard() -> None:
    hard = np.random.default_rng(0).normal(0.3, 0.1, 20)
    paired = ratio_of((1.1 * hard).tolist(), hard.tolist())
    assert paired.is_miss
    mixed = ratio_of((1.1 * hard).tolist(), np.random.default_rng(1).permutation(hard).tolist())
    assert not mixed.is_miss


def test_a_miss_is_an_interval_above_what_is_tolerated() -> None:
    assert not ratio_of([TOLERANCE * 0.1] * 3, [0.1] * 3).is_miss
    assert ratio_of([0.11] * 3, [0.1] * 3).is_miss
    assert not ratio_of([0.11], [0.1]).is_miss  # one seed says nothing


def test_errors_of_nothing_do_no_harm() -> None:
    assert ratio_of([0.0, 0.01, 0.02], [0.01, 0.02, 0.03]).value == pytest.approx(0.5)
    nothing = ratio_of([0.1, 0.2], [0.0, 0.0])
    assert nothing.value == float("inf")
    assert not nothing.is_miss
    assert not ratio_of([0.0, 0.0], [0.0, 0.0]).is_miss
    with pytest.raises(ValueError, match="not pairs"):
        ratio_of([0.1], [0.1, 0.2])


# --- the choice ---------------------------------------------------------------------------------------------------------


def test_the_best_rule_is_chosen_on_other_seeds_than_those_compared_on() -> None:
    one = CORPUS[SHORT]
    assert not set(one.choice_seeds) & set(one.compared_seeds)

    def error(entrant: Entrant, seed: int) -> float:
        if seed in one.choice_seeds:
            return {BANDITRON: 0.1, LINUCB: 0.2}.get(entrant, 0.5)
        return {BANDITRON: 0.4, LINUCB: 0.2, Entrant(AUTO): 0.3}.get(entrant, 0.6)

    found = judge_stream(one, Told(error), None)  # type: ignore[arg-type]
    assert found is not None
    assert found.best == BANDITRON
    assert found.ratio.value == pytest.approx(0.75)
    assert len(found.theirs) == 20
    assert not found.ratio.is_miss


def test_a_rule_that_refused_a_seed_is_not_chosen() -> None:
    one = CORPUS[SHORT]
    refused = one.choice_seeds[1]

    def error(entrant: Entrant, seed: int) -> float | None:
        return None if entrant == BANDITRON and seed == refused else {BANDITRON: 0.1, LINUCB: 0.2}.get(entrant, 0.5)

    assert best_fixed(one, Told(error)) == LINUCB  # type: ignore[arg-type]
    assert judge_stream(one, Told(lambda entrant, seed: None), None) is None  # type: ignore[arg-type]
    assert best_fixed(one, Told(lambda entrant, seed: 0.2)) == fixed_entrants()[0]  # type: ignore[arg-type]


def test_the_fixed_rules_are_those_with_bandit_feedback_in_both_forms() -> None:
    found = fixed_entrants()
    assert {BANDITRON, LINUCB, Entrant("gaptron"), Entrant("linucb")} <= set(found)
    assert not {"auto", "arow", "perceptron"} & {entrant.rule for entrant in found}
    assert len(found) == 2 * len({entrant.rule for entrant in found})


# --- the streams --------------------------------------------------------------------------------------------------------


def test_the_halves_are_split_by_what_was_built_on_and_by_family() -> None:
    assert len(CORPUS) >= 60
    assert f"on {len(CORPUS)} streams" in (corpus.__doc__ or "")
    halves = [one.half for one in CORPUS.values()]
    assert halves.count(REPORT) >= 40
    assert halves.count(CHOOSE) >= 40
    by_family: dict[str, set[str]] = {}
    for one in CORPUS.values():
        if one.developed:
            assert one.half == CHOOSE
        else:
            by_family.setdefault(one.family, set()).add(one.half)
    assert all(len(found) == 1 for found in by_family.values())
    assert replace(CORPUS[SHORT], name="another name").half == CORPUS[SHORT].half
    assert CORPUS["digits"].half == CORPUS["20 Newsgroups, binary"].half == CHOOSE


def test_short_streams_have_more_seeds() -> None:
    for one in CORPUS.values():
        wanted = 20 if one.rounds < 5000 else 5 if one.rounds < 500_000 else 2
        assert len(one.compared_seeds) == wanted
        assert len(one.choice_seeds) >= 1


DRAWN = [one for one in CORPUS.values() if not one.recipe.needs and not one.settings and one.rounds < 500_000]


@pytest.mark.parametrize("one", DRAWN, ids=lambda one: one.name)
def test_a_recipe_gives_what_it_says(one: CorpusStream) -> None:
    rounds = min(one.rounds, 1000)
    X, y = one.recipe.make(rounds, 3)
    values = X.data if hasattr(X, "indptr") else X
    assert X.shape[0] == len(y) == rounds
    assert values.dtype == np.float32
    assert y.dtype == np.int64
    assert np.isfinite(values).all()
    assert 0 <= y.min() < y.max() < one.recipe.classes


def test_a_seed_gives_the_same_rows_and_another_gives_others() -> None:
    make = CORPUS["mixed columns"].recipe.make
    (first, labels), (again, same), (other, _) = make(50, 1), make(50, 1), make(50, 2)
    assert np.array_equal(first, again)
    assert np.array_equal(labels, same)
    assert not np.array_equal(first, other)


def half_a_stream(rounds: int, seed: int) -> Drawn:
    return dense(generator_of(seed).random((rounds // 2, 3))), np.zeros(rounds // 2, dtype=np.int64)


def test_a_recipe_with_too_few_rows_is_refused() -> None:
    with pytest.raises(OnebitError, match="gave 50 rows for 100 rounds"):
        Recipe(half_a_stream, 2, 100).stream("half").data(0)


def test_a_recipe_is_known_by_its_code_and_its_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    make = partial(linear, columns=5, classes=3, telling=5)
    mark = Recipe(make, 3, 200).mark
    assert mark == Recipe(partial(linear, columns=5, classes=3, telling=5), 3, 200).mark
    assert mark != Recipe(partial(linear, columns=6, classes=3, telling=5), 3, 200).mark
    monkeypatch.setattr("benchmarks.streams.tables.generator_of", half_a_stream)
    assert mark != Recipe(make, 3, 200).mark


def test_what_is_not_on_this_machine_is_left_out_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path))
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path))
    assert main(["corpus", "--only", "USPS", "--results", str(tmp_path / "results")]) == 0
    said = capsys.readouterr().out
    assert "| USPS | there is no usps.npz in the folder that ONEBIT_DATA names |" in said


# --- the runs -----------------------------------------------------------------------------------------------------------


def test_what_is_done_is_not_run_again_unless_code_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [Unit(SHORT, seed, (BANDITRON, LINUCB)) for seed in (500, 501)]
    records = Records(tmp_path)
    assert missing_units(units, records) == units
    for done in run_unit(units[0], threading.Event()):
        records.add(done)
    records.close()
    again = Records(tmp_path)
    assert missing_units(units, again) == [units[1]]
    errors = [again.get(trial).error for trial in units[0].trials()]  # type: ignore[union-attr]
    assert all(0.0 < error < 1.0 for error in errors)
    with monkeypatch.context() as patched:
        patched.setattr("onebit.experiments.trials.code_mark", lambda rule: "edited")
        corpus_runs._entry.cache_clear()
        assert missing_units(units, again) == units
    corpus_runs._entry.cache_clear()
    one = CORPUS[SHORT]
    longer = replace(one, recipe=replace(one.recipe, make=partial(linear, columns=9, classes=2, telling=8)))
    with monkeypatch.context() as patched:
        patched.setitem(CORPUS, SHORT, longer)
        assert missing_units(units, again) == units
    assert missing_units(units, again) == [units[1]]
    again.close()


def test_another_process_gives_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    unit, told = Unit(SHORT, 500, (BANDITRON, LINUCB)), list[int]()
    records = Records(tmp_path)
    assert run_units([unit], records, 1, told.append) == []
    assert told == [2 * CORPUS[SHORT].rounds]
    here = {record.id: record.error for record in run_unit(unit, threading.Event())}
    assert {trial.identity: records.get(trial).error for trial in unit.trials()} == here  # type: ignore[union-attr]
    assert run_units([unit], records, 1, told.append) == []
    assert len(told) == 1  # nothing was left to run
    assert os.environ["OMP_NUM_THREADS"] == "3"
    records.close()


def test_a_stopped_unit_leaves_no_half_records() -> None:
    stop = threading.Event()
    stop.set()
    assert run_unit(Unit(SHORT, 500, (BANDITRON, LINUCB)), stop) == []


def test_the_longest_streams_are_run_first() -> None:
    long = "10^6 rounds, mixed columns"
    units = [Unit(SHORT, 500, (BANDITRON,)), Unit(long, 500, (BANDITRON,))]
    assert [unit.stream for unit in missing_units(units, Records())] == [long, SHORT]


# --- the table ----------------------------------------------------------------------------------------------------------


def test_the_table_names_the_misses_of_each_half() -> None:
    best = Entrant("linucb")
    good = Judgement(CORPUS["digits"], best, [0.1, 0.102], [0.1, 0.102])
    bad = Judgement(CORPUS[SHORT], best, [0.2, 0.2], [0.1, 0.1])
    first, second = corpus.stream_rows([good, bad])
    assert list(first.values()) == [
        "digits", "choose", 10_000, 10, 2, "10.10", "`linucb`", "10.10", "1.000 (1.000 to 1.000)", False,
    ]  # fmt: skip
    assert second["miss"] is True
    choose, report = corpus.half_rows([good, bad])
    assert (choose["streams"], choose["misses"]) == (1, "")
    assert report["geometric mean of the ratios"] == pytest.approx(2.0)
    assert report["misses"] == SHORT


def test_the_same_rows_in_another_form_are_compared() -> None:
    best = Entrant("linucb")
    errors = {"digits": [0.1, 0.1], "digits as CSR": [0.11, 0.11], SHORT: [0.2, 0.2]}
    judgements = [Judgement(CORPUS[name], best, found, found) for name, found in errors.items()]
    assert corpus.form_rows(judgements) == [{"stream": "digits as CSR", "error, times": "1.100 (1.100 to 1.100)"}]
    assert corpus.form_rows(judgements[:1]) == []
    for name, other in FORMS.items():
        one, form = CORPUS[name], CORPUS[other]
        assert (one.rounds, one.compared_seeds, one.settings) == (form.rounds, form.compared_seeds, form.settings)


@pytest.mark.parametrize("name", ["topics", "shifted pictures, as CSR"])
def test_another_form_has_the_same_rows(name: str) -> None:
    (X, y), (Z, labels) = (CORPUS[one].recipe.make(100, 3) for one in (name, FORMS[name]))
    dense_rows, csr = (Z, X) if hasattr(X, "indptr") else (X, Z)
    matrix = scipy.sparse.csr_matrix((csr.data, csr.indices, csr.indptr), shape=csr.shape)
    assert np.array_equal(matrix.toarray(), dense_rows)
    assert np.array_equal(y, labels)


def test_rules_that_failed_are_named() -> None:
    failed = [
        record(learner="pab", stream={"data": name}, why=f"row {row}: does not settle")
        for row, name in enumerate(("digits", "iris", "digits"))
    ]
    refused = [record(learner="soba", stream={"data": "USPS"}, why="too few rows")]
    assert [list(row.values()) for row in corpus.failure_rows([*failed, *refused])] == [
        ["pab", 3, "digits; iris", "row 0: does not settle"],
        ["soba", 1, "USPS", "too few rows"],
    ]


def test_a_stream_that_is_not_there_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["corpus", "--only", "digit"])
    assert ended.value.code == 2
    assert "did you mean 'digits'" in capsys.readouterr().err
