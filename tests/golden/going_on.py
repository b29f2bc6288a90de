"""What the golden learners of a release say while they learn 20 rounds more: `python tests/golden/going_on.py FOLDER`.

Run by the release that wrote the folder, so that what is expected of later ones was not measured by them:

    git archive RELEASE | tar x -C /tmp/release
    PYTHONPATH=/tmp/release/src python tests/golden/going_on.py tests/golden/1.0.0

Hence only what every release has is used here.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import onebit

CLASSES = ["ant", "bee", "cat"]
ROUNDS = 20
FILE = "going_on.json"


def example(name: str, number: int) -> Any:
    """The x of a round, exact in any precision, in the form that the learner of this name reads."""
    if name == "text":
        return f"word{number % 5} and {'more' if number % 2 else 'less'}"
    if name == "hashed":
        return {f"f{number % 4}": 1.0, "always": -0.5}
    return [((number * 5 + column * 3) % 8 - 3) / 8.0 for column in range(4)]


def going_on(name: str, learner: Any) -> dict[str, Any]:
    """What a learner plays in 20 rounds, each of which it learns from, and how it scores then."""
    played = []
    for number in range(ROUNDS):
        decision = learner.decide(example(name, number))
        played.append((decision.label, decision.propensity))
        learner.learn(decision, label=CLASSES[number * number % 3])
    return {
        "learnt": learner.learnt,
        "labels": [label for label, _ in played],
        "propensities": [propensity for _, propensity in played],
        "scores": [learner.scores(example(name, number)).tolist() for number in range(3)],
    }


def loaded(path: Path) -> Any:
    """A golden learner, wherever it was written."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # another machine is what golden files are for
        return onebit.load(path)


def write(folder: Path) -> None:
    """Write what every learner of a folder does."""
    found = {path.stem: going_on(path.stem, loaded(path)) for path in sorted(folder.glob("*.onebit"))}
    (folder / FILE).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    print(onebit.__version__, onebit.__file__)
    write(Path(sys.argv[1]))
