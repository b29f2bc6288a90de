"""Rules of one's own: from a file that a command is given, and in a service only where it was started with them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import onebit
from onebit import rules
from onebit.experiments.compare import usual_entries
from onebit.experiments.executors.cluster.worker import pack_rule
from onebit.rules import add_rule
from onebit.service.errors import InvalidError, TaskQuarantinedError
from onebit.service.requests import DecideRequest, FeedbackRequest, NewTask
from onebit.service.service import Service
from onebit.service.settings import Settings
from tests.cli.call import Call
from tests.service.logs import served

RULE = '''
from typing import Annotated, NamedTuple

import onebit
from beside import moved
from onebit.contract.choices import fill
from onebit.contract.exploration import decide_epsilon_greedy, epsilon_greedy_probabilities
from onebit.contract.parameters import Real


class Nudge(NamedTuple):
    """Moves the played class."""

    classes: int
    exploration: Annotated[float, Real("(0, 1)", "the probability of exploring")] = 0.1
    rate: Annotated[float, Real("(0, inf)", "how far the played class moves")] = 0.1


def learn(params, given, choice, revealed, step):
    fill(step, params.classes, 0.0)
    step[choice.label] = moved(params.rate, revealed == choice.label)
    return 1.0


RULE = onebit.Rule(
    name="nudge",
    paper="none",
    summary="moves the played class by a fixed step",
    record=Nudge,
    decide=decide_epsilon_greedy,
    learn=learn,
    probabilities=epsilon_greedy_probabilities,
)
OTHER = 3
'''
BESIDE = "def moved(rate, right):\n    return rate if right else -rate\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("own")
    (folder / "nudge.py").write_text(RULE)
    (folder / "beside.py").write_text(BESIDE)
    yield f"{folder / 'nudge.py'}:RULE"
    sys.modules.pop("beside", None)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_added", {})


# --- from the command line -----------------------------------------------------------------------------------------------


def test_run_takes_a_rule_of_a_file(call: Call, file: str) -> None:
    given = ("iris", "--prepare", "unit-norm", "--json", "--quiet", "--set", "rate=0.5")
    code, out, _ = call("run", *given, "--rule", file)
    assert code == 0
    printed = json.loads(out)
    assert (printed["rule"], printed["params"]["rate"]) == ("nudge", 0.5)
    assert 0.0 < printed["error_mean"] < 0.6
    assert json.loads(call("run", "nudge", *given, "--rule", file)[1])["error_mean"] == printed["error_mean"]
    rule = add_rule(file)
    assert onebit.run(rule, "iris", prepare="unit-norm", rate=0.5).error == printed["error_mean"]
    assert onebit.run("nudge", "iris", prepare="unit-norm", rate=0.5).error == printed["error_mean"]


def test_compare_and_sweep_take_it(call: Call, file: str, tmp_path: Path) -> None:
    given = ("--prepare", "unit-norm", "--runs", "2", "--quiet", "--json", "--rule", file)
    code, out, _ = call("compare", "iris", "--learners", "nudge,bpa", "--out", str(tmp_path / "compared"), *given)
    assert code == 0
    assert '"nudge"' in out
    code, out, _ = call(
        "sweep", "iris", "--grid", "rate=0.1,1", "--fresh-runs", "2", "--out", str(tmp_path / "swept"), *given
    )
    assert code == 0
    assert json.loads(out)["learner"] == "nudge"
    assert call("sweep", "iris", "--grid", "rate=0.1,1")[0] == 2
    assert "nudge" in {entry.rule.name for entry in usual_entries()}


def test_learners_lists_it(call: Call, file: str) -> None:
    code, out, _ = call("learners", "--rule", file)
    assert code == 0
    assert "nudge  (a rule of your own, feedback: bandit; none)" in out
    assert "nudge" not in {rule.name for rule in rules.registry().values()}


def test_evaluate_and_replay_take_it(call: Call, file: str, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "x,z,action,right,propensity\n"
        + "".join(f"{n % 2},1,{n % 3 % 2},{int(n % 2 == n % 3 % 2)},0.5\n" for n in range(300))
    )
    code, out, _ = call("evaluate", str(log), "--x", "x,z", "--rule", file, "--json", "--quiet")
    assert code == 0
    assert json.loads(out)["learner"] == "nudge"
    saved = tmp_path / "nudge.onebit"
    assert call("replay", str(log), "--x", "x,z", "--rule", file, "--out", str(saved))[0] == 0
    assert onebit.load(saved).learnt == 300
    rules._added.clear()
    with pytest.raises(onebit.InputError, match="which is not part of onebit"):
        onebit.load(saved)


FILES = {
    "RULE": ("RULE = 1 / 0", "nudge.py cannot be run: ZeroDivisionError"),
    "Nothing": ("RULE = 3", "there is no Nothing"),
    "OTHER": ("OTHER = 3", "is a int, but must be a Rule"),
    "END": ("raise SystemExit(3)", "cannot be run: SystemExit"),
    "ODD": ("def (", "cannot be run: SyntaxError"),
    "NAMED": (
        RULE.replace('"nudge"', '"bpa"').replace("from beside import moved", "moved = None") + "\nNAMED = RULE",
        "like one of onebit's",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_what_cannot_be_a_rule_is_one_line(call: Call, tmp_path: Path, name: str) -> None:
    text, sentence = FILES[name]
    path = tmp_path / "nudge.py"
    path.write_text(text)
    code, out, err = call("run", "iris", "--rule", f"{path}:{name}")
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert sentence in err


@pytest.mark.parametrize("given", ["nudge.py", "nudge:RULE", "other.py:RULE", "nudge.py:", ""])
def test_what_names_no_rule_is_one_line(call: Call, given: str) -> None:
    code, out, err = call("run", "iris", "--rule", given)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err


def test_two_of_one_name_are_refused_and_one_given_twice_is_the_same(file: str, tmp_path: Path) -> None:
    assert add_rule(file) is add_rule(file)
    path = tmp_path / "again.py"
    path.write_text(RULE.replace("from beside import moved", "moved = None"))
    with pytest.raises(onebit.InputError, match="like another added rule"):
        add_rule(f"{path}:RULE")


def test_it_goes_to_workers_that_do_not_have_the_file(file: str) -> None:
    sent = pack_rule(add_rule(file))
    assert isinstance(sent, bytes)
    program = (
        "import sys, pickle; rule = pickle.loads(sys.stdin.buffer.read()); print(rule.name, rule.defaults['rate'])"
    )
    answer = subprocess.run([sys.executable, "-P", "-c", program], input=sent, capture_output=True, check=False)
    assert answer.stdout.decode().split() == ["nudge", "0.1"], answer.stderr.decode()


# --- in a service --------------------------------------------------------------------------------------------------------


def asked(name: str = "news") -> NewTask:
    return NewTask(name=name, classes=2, learner="nudge", features={"kind": "numbers", "size": 2})  # type: ignore[arg-type]


def served_with(folder: Path, rule: tuple[str, ...], work: Callable[[Service], object], apart: bool = False) -> None:
    import asyncio

    async def run() -> None:
        service = Service(Settings(data=folder, rule=rule), compiles_apart=apart)
        await service.start()
        try:
            await work(service)  # type: ignore[misc]
        finally:
            await service.stop()

    asyncio.run(run())


def test_a_service_takes_it_only_where_it_was_started_with_it(file: str, tmp_path: Path) -> None:
    async def refused(service: Service) -> None:
        with pytest.raises(InvalidError, match="there is no learner 'nudge'"):
            await service.create(asked())

    served(tmp_path, refused)
    labels = []

    async def decide(service: Service) -> None:
        if "news" not in service.task_names():
            await service.create(asked())
        decided = await service.decide(
            "news", [DecideRequest(id=f"a{n}", x=[1.0, n % 2]) for n in range(20)], single=False
        )
        labels.append([(one["label"], one["propensity"]) for one in decided])
        await service.feedback(
            "news", [FeedbackRequest(id=one["id"], right=one["label"] == 1) for one in decided], single=False
        )

    served_with(tmp_path, (file,), decide, apart=True)
    served_with(tmp_path, (file,), decide)
    assert labels[0] == labels[1]

    async def aside(service: Service) -> None:
        with pytest.raises(TaskQuarantinedError, match="nudge"):
            await service.decide("news", [DecideRequest(x=[1.0, 1.0])])

    rules._added.clear()
    served(tmp_path, aside)
    served_with(tmp_path, (file,), decide)
    assert labels[2] == labels[0], "nothing was lost meanwhile"


def test_a_service_that_cannot_have_its_rule_does_not_start(call: Call, tmp_path: Path) -> None:
    code, out, err = call(
        "serve", "--data", str(tmp_path / "data"), "--port", "0", "--rule", f"{tmp_path}/none.py:RULE"
    )
    assert (code, out) == (2, "")
    assert "there is no file" in err.splitlines()[-1]
    assert not (tmp_path / "data" / "onebit.db").exists()
