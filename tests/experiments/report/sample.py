"""A page as `onebit compare` and `onebit sweep` make them, with made-up numbers. `python -m tests.experiments.report.sample FILE` writes it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from onebit.experiments.report import (
    BANDIT,
    FULL_INFORMATION,
    Badge,
    Band,
    Cell,
    Column,
    Curves,
    HeatMap,
    Number,
    Page,
    Scatter,
    Section,
    Series,
    Table,
    Text,
)
from onebit.experiments.report.html import page_html

LEARNERS = [
    ("bpa aggressiveness=0.001", 17.9, BANDIT),
    ("policy-gradient", 22.1, BANDIT),
    ("bpa", 28.7, BANDIT),
    ("conservative-ova aggressiveness=0.001", 34.8, BANDIT),
    ("epabf aggressiveness=0.001", 45.2, BANDIT),
    ("epabf variant=PA-I aggressiveness=0.001 exploration=0.05 floor=0.0001", 46.9, BANDIT),
    ("offset-tree aggressiveness=0.001", 48.8, BANDIT),
    ("banditron exploration=0.2", 52.0, BANDIT),
    ("banditron", 61.9, BANDIT),
    ("offset-tree", 65.9, BANDIT),
    ("pab", 73.5, BANDIT),
    ("conservative-ova", 82.1, BANDIT),
    ("epabf", 82.2, BANDIT),
    ("epabf aggressiveness=1", 82.3, BANDIT),
    ("bpa aggressiveness=1", 85.0, BANDIT),
    ("bandit-perceptron", 85.7, BANDIT),
    ("offset-tree aggressiveness=1", 86.1, BANDIT),
    ("gaptron", 87.0, BANDIT),
    ("gaptron loss=hinge", 87.4, BANDIT),
    ("uniform", 90.0, BANDIT),
    ("exact-pa aggressiveness=0.001", 11.7, FULL_INFORMATION),
    ("passive-aggressive aggressiveness=0.001", 11.9, FULL_INFORMATION),
    ("exact-pa", 12.1, FULL_INFORMATION),
    ("passive-aggressive", 12.7, FULL_INFORMATION),
    ("perceptron", 16.3, FULL_INFORMATION),
]


def curve(generator: np.random.Generator, start: float, end: float, points: int) -> Band:
    """A curve that falls from start to end, with an interval that narrows."""
    fall = np.geomspace(1, 0.02, points) ** generator.uniform(0.5, 1.1)
    mean = end + (start - end) * fall + generator.normal(0, 0.15, points)
    width = generator.uniform(0.4, 2.5) * (0.3 + fall)
    return Band((mean).tolist(), (mean - width).tolist(), (mean + width).tolist())


def comparison(name: str, seed: int, points: int = 200) -> Section:
    """A data set with 25 learners: a table and curves."""
    generator = np.random.default_rng(seed)
    series, rows = [], []
    rounds = np.unique(np.geomspace(10, 100_000, points + 40).round())[-points:]
    for learner, error, group in LEARNERS:
        moved = min(90.0, max(1.0, error + generator.normal(0, 6) * (seed > 0)))
        greedy = max(0.5, moved - generator.uniform(0, 6))
        measures = {"played": curve(generator, 90, moved, points), "greedy": curve(generator, 90, greedy, points)}
        series.append(Series(learner, measures, group))
        rows.append((moved, greedy, learner, group))
    rows.sort()
    best = rows[0][0]
    table = Table(
        "Error after 100,000 rounds",
        [
            Column("learner"),
            Column("error, %", True, "labels that were played and wrong"),
            Column("greedy, %", True, "labels thought best and wrong"),
            Column("to the best", True, "paired difference to the lowest error"),
        ],
        {
            group: [_cells(*row[:3], best) for row in rows if row[3] == group]
            for group in dict.fromkeys(row[3] for row in rows)
        },
        "Means of 10 runs with 95 % intervals. All learners met the same streams: same order, same noise.",
    )
    curves = Curves("Error by round", rounds.tolist(), "rounds", "error, %", series, True)
    return Section(name, [table, curves])


def _cells(error: float, greedy: float, learner: str, best: float) -> list[Cell]:
    return [
        f"`{learner}`",
        Number(error, f"{error:.1f}", f"± {error / 60:.1f}"),
        Number(greedy, f"{greedy:.1f}", f"± {greedy / 60:.1f}"),
        Number(error - best, f"+{error - best:.1f}", f"± {error / 90:.1f}") if error > best else Number(0.0, "best"),
    ]


def sweep(seed: int = 5) -> Section:
    """A heat map for two parameters and a sensitivity curve for one."""
    generator = np.random.default_rng(seed)
    exploration, aggressiveness = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3], [0.0001, 0.001, 0.01, 0.1, 1.0]
    values: list[list[float | None]] = [
        [float(20 + 9 * abs(row - 1) + 5 * (column - 3) ** 2 + generator.normal()) for column in range(6)]
        for row in range(5)
    ]
    values[4][5] = None
    text = [["failed" if value is None else f"{value:.1f}" for value in row] for row in values]
    mean = np.array([41.0, 33.0, 27.5, 24.0, 22.1, 23.5, 30.8, 48.0])
    band = {"played": Band(mean.tolist(), (mean - 1.5).tolist(), (mean + 1.5).tolist())}
    grid = np.geomspace(0.001, 0.3, 8).tolist()
    heat = HeatMap(
        "Error by both", "exploration", exploration, "aggressiveness", aggressiveness, values, text, (1, 3), "In %."
    )
    return Section(
        "Sweep of epabf on synsep10",
        [
            Text(
                ["The setting was chosen on tuning streams; its error is reported on fresh ones (`seed` 1000 and up)."]
            ),
            heat,
            Curves("Sensitivity", grid, "exploration", "error, %", [Series("epabf", band)], True),
        ],
    )


def plane(seed: int = 7) -> Scatter:
    """Nine classes in three groups."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 9, 900)
    angle = labels * 2 * np.pi / 9 + generator.uniform(-0.28, 0.28, 900)
    radius = generator.uniform(0.3, 1, 900)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    return Scatter(
        "group2d", x.tolist(), y.tolist(), labels.tolist(), [f"class {label}" for label in range(9)], "900 rows."
    )


def verdicts() -> Table:
    """A table as `onebit reproduce` makes them."""
    columns = [Column("item"), Column("published", True), Column("measured", True), Column("verdict"), Column("why")]
    return Table(
        "Table I of Chen et al.",
        columns,
        {
            "": [
                [
                    "20 Newsgroups, Banditron",
                    Number(75.07, "75.07"),
                    Number(75.0, "75.0"),
                    Badge("reproduced", "good"),
                    "",
                ],
                [
                    "20 Newsgroups, Conservative OVA",
                    Number(33.4, "33.4"),
                    Number(72.0, "72.0", "± 0.4"),
                    Badge("differs", "bad"),
                    "With every token it locks in; with words in at most 1 % of documents it errs 34 to 37 %.",
                ],
                [
                    "USPS, Confidit",
                    Number(8.1, "8.1"),
                    Number(None, ""),
                    Badge("waiting"),
                    "Waiting for second-order rules.",
                ],
            ]
        },
    )


def page() -> Page:
    """All of it."""
    return Page(
        "25 learners on synsep10 and satimage",
        "onebit compare synsep10 satimage --rounds 100000 --runs 10 --out results/first",
        [
            Text(
                [
                    "Best with bandit feedback: `bpa aggressiveness=0.001` on synsep10 (17.9 % ± 0.3) and "
                    "`policy-gradient` on satimage."
                ]
            ),
            comparison("synsep10", 0),
            comparison("satimage", 1),
            sweep(),
            Section("Other things", [verdicts(), plane()]),
        ],
        {
            "onebit": "0.2.0",
            "Python": "3.11.2, numpy 2.1.3, numba 0.61.0",
            "machine": "2 cores, x86_64, Linux",
            "rows": "results/first/rows.jsonl (500 rows)",
            "made": "2026-01-01 12:00 UTC in 41 s",
        },
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page_html(page()), encoding="utf-8")
