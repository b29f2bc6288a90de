"""OCR checking: a clerk who can look at one reading in five.

Forms are read digit by digit, and nobody has labelled any. The learner reads a digit, and a clerk may look at it and press right or wrong: one
press, no typing. A wrong reading that the clerk has seen does no harm. One that was not checked gets through. The first 300 are all
checked, since a learner that knows nothing cannot say what it is unsure of. From then on the clerk looks at one in five. Which ones? One
in five at random, or those that the learner is least sure of? It learns from what was checked and from nothing else.

How sure it is comes from its scores: the softmax of these is what it believes of each class. A belief is compared with those of the last 200
readings, so that a fifth of them is checked whatever the numbers mean.

The digits are real: 1,797 handwritten ones of scikit-learn, each read once, in a random order.

    python examples/ocr_checking.py pictures
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import onebit

ALL_OF = 300  # so many readings are all checked in the beginning
SHARE = 0.2  # of those after them is checked
LATELY = 200


@dataclass
class Day:
    """What came of one way to check."""

    checked: int = 0
    slips: list[bool] = field(default_factory=list)  # for each digit, whether a wrong reading got through
    unsure: list[tuple[float, int, int]] = field(default_factory=list)  # belief, digit, reading, of the later half


def belief(learner: onebit.Learner, x: NDArray[np.float64], label: int) -> float:
    """How sure the learner is of this class."""
    scores = learner.scores(x)
    likely = np.exp(scores - scores.max())
    return float(likely[label] / likely.sum())


def read(X: NDArray[np.float64], y: NDArray[np.int64], way: str, seed: int) -> Day:
    """Read all digits, and check some of them in this way."""
    rng = np.random.default_rng(seed)
    learner = onebit.Auto(classes=10)
    day, lately = Day(), deque[float](maxlen=LATELY)
    for number, (x, truth) in enumerate(zip(X, y, strict=True)):
        decision = learner.decide(x, id=f"digit-{number}")
        sure = belief(learner, x, int(decision.label))
        lately.append(sure)
        if number < ALL_OF or way == "all":
            checks = True
        elif way == "one in five at random":
            checks = bool(rng.random() < SHARE)
        else:
            checks = bool(sure <= np.quantile(lately, SHARE))
        right = bool(decision.label == truth)
        if checks:
            learner.learn(decision, right=right)
        day.checked += checks
        day.slips.append(not right and not checks)
        if number >= len(X) // 2:
            day.unsure.append((sure, number, int(decision.label)))
    return day


def main(arguments: Sequence[str] | None = None) -> Path:
    """Read the digits, checked in three ways, print what got through, and draw it."""
    parser = argparse.ArgumentParser(description="OCR checking: which readings should a clerk look at?")
    parser.add_argument("folder", type=Path, help="where the picture goes")
    parser.add_argument("--digits", type=int, default=1797, help="how many are read (default: all %(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.digits < 100:
        parser.error(f"--digits is {chosen.digits}, but must be at least 100")

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[: chosen.digits]
    X, y = X[order], y[order]
    figure = plt.figure(figsize=(9.6, 4.0), layout="constrained")
    (left, right), *_ = figure.subfigures(1, 2, width_ratios=(3, 2), squeeze=False)
    axes = left.subplots()
    for way, colour in (("all", "#555555"), ("one in five at random", "#d55e00"), ("the fifth least sure", "#0072b2")):
        day = read(X, y, way, seed=1)
        slips = np.cumsum(day.slips)
        print(f"{way}: {day.checked:,} of {len(X):,} readings looked at, {slips[-1]:,} wrong ones got through")
        axes.plot(np.arange(1, len(X) + 1), slips, color=colour, label=f"{way} ({day.checked:,} checks)")
    axes.set(xlabel="digits read", ylabel="wrong readings that got through")
    axes.set_title("Which readings should be checked?", loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    right.suptitle(
        "least sure in the later half, and what they were read as\n(blue: right, orange: wrong)", fontsize=10
    )
    for one, (_, number, reading) in zip(right.subplots(3, 4).flat, sorted(day.unsure), strict=False):
        one.imshow(X[number].reshape(8, 8), cmap="Greys")
        one.set_title(str(reading), color="#0072b2" if reading == y[number] else "#d55e00", fontsize=10)
        one.set_axis_off()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    path: Path = chosen.folder / "ocr-checking.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"the picture is {path}")
    return path


if __name__ == "__main__":
    main()
