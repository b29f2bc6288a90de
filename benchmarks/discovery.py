"""What it costs at least to find out the names of K equal classes from right and wrong.

    python benchmarks/discovery.py --classes 300 --rounds 20_000

The learner here is given what no learner has: it knows which rows belong together, and never mistakes one class for another. Only the
names are left to be found. It tries a name on a class once at most, and none that belongs to another class already. What it errs is
what `auto` can be held against on streams of many equal classes: a simulation, and no proof that
nothing does better.
"""

from __future__ import annotations

import argparse

import numpy as np

RUNS = 20


def naming_error(classes: int, rounds: int, seed: int) -> float:
    """The share of rounds in which the name played was wrong.

    With two classes one answer says everything:

    >>> max(naming_error(2, 1000, seed) for seed in range(5)) <= 1 / 1000
    True
    """
    draws = np.random.default_rng(seed)
    names = draws.permutation(classes)
    named = np.zeros(classes, dtype=bool)  # the classes whose name is known
    possible = np.ones((classes, classes), dtype=bool)  # by class: the names that it may have
    wrong = 0
    for drawn in draws.integers(classes, size=rounds):
        if named[drawn]:
            continue
        left = np.flatnonzero(possible[drawn])
        tried = draws.choice(left)
        right = tried == names[drawn]
        if right or len(left) == 2:  # of two names, a wrong one says the other
            named[drawn] = True
            possible[:, names[drawn]] = False
        else:
            possible[drawn, tried] = False
        wrong += not right
    return wrong / rounds


def main() -> None:
    """Print the mean over some runs, with its standard error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--classes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=20_000)
    chosen = parser.parse_args()
    errors = 100 * np.array([naming_error(chosen.classes, chosen.rounds, seed) for seed in range(RUNS)])
    print(f"{errors.mean():.1f} % ± {errors.std(ddof=1) / np.sqrt(RUNS):.1f} of {chosen.rounds:,} rounds, {RUNS} runs")


if __name__ == "__main__":
    main()
