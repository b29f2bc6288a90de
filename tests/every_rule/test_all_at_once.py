"""What is said of all learners of the registry at once; `tests/every_rule` goes through them one by one."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

from onebit.checks.examples import rows, train
from onebit.learner.decision import Decision
from onebit.rules import registry
from tests.every_rule.cases import EXAMPLES, FAMILIES, made, twin_module


def test_every_rule_is_in_one_family_and_has_a_twin() -> None:
    assert sorted(name for family in FAMILIES.values() for name in family) == sorted(registry())
    for name in registry():
        assert hasattr(twin_module(name), "Oracle"), name


def test_all_are_the_same_in_another_process(tmp_path: Path) -> None:
    """Loaded there, each decides as it does here."""
    X = rows(10, seed=9)[0]
    expected = {}
    for name in registry():
        for case, options in EXAMPLES[name].items():
            learner = train(lambda name=name, options=options, **common: made(name, options, **common))
            learner.save(tmp_path / case)
            expected[case] = [learner.decide(x) for x in X]
    for kernel in ("rbf:0.5", "polynomial:2"):
        learner = train(partial(made, "banditron", {"kernel": kernel}))
        learner.save(tmp_path / kernel)
        expected[kernel] = [learner.decide(x) for x in X]
    program = (
        "import sys, json, pathlib, onebit\n"
        "X = json.loads(sys.argv[2])\n"
        "for path in pathlib.Path(sys.argv[1]).iterdir():\n"
        "    learner = onebit.load(path)\n"
        "    print(json.dumps([path.name, [learner.decide(x).to_json() for x in X]]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), str(X.tolist())]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    there = dict(json.loads(line) for line in answer.stdout.splitlines())
    assert {case: [Decision.from_json(one) for one in decided] for case, decided in there.items()} == expected
