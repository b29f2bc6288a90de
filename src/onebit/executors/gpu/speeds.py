"""How fast a GPU and a core beside it are: what `--on auto` decides by.

Each number is the least-squares fit of a constant to the logarithms of what was measured with 10 classes and 100 features, that is, their
geometric mean; `python -m benchmarks gpu` prints it below its table. The GPU was an H200, the core one of its host (18 November 2026).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Sequence
from typing import NamedTuple

from onebit.contract.rule import Rule
from onebit.trials.cost import kind_of
from onebit.trials.trial import Trial

KERNEL_S = 4.0  # seconds in which a kernel is built: 2 to 8 were measured


class Speeds(NamedTuple):
    """Rounds a second of rules that are alike in cost."""

    replicate: float  # of one replicate on the GPU, beside all that run at the same time
    together: int  # replicates that do
    core: float  # of one core


FITTED = {
    "first-order": Speeds(309_000, 4050, 2_150_000),
    "second-order": Speeds(294_000, 2250, 1_180_000),
}


def family_of(rule: Rule) -> str:
    """Which rules it is alike in cost."""
    return "first-order" if rule.second_order is None else "second-order"


def pays(trials: Sequence[Trial], threads: int, built: Container[Hashable] = ()) -> bool:
    """Whether the GPU is done with the trials of a stream before so many threads are; kernels of kinds that are `built` are there.

    Kernels are built and run one after the other, and each takes at least as long as one replicate for all its rounds.
    """
    rounds = trials[0].stream.rounds
    counts = Counter((kind_of(trial), family_of(trial.entry.rule)) for trial in trials)
    on_gpu = KERNEL_S * sum(kind not in built for kind, _ in counts)
    for (_, family), count in counts.items():
        on_gpu += -(-count // FITTED[family].together) * rounds / FITTED[family].replicate
    families = Counter(family_of(trial.entry.rule) for trial in trials)
    on_threads = sum(count * rounds / FITTED[family].core for family, count in families.items()) / threads
    alone = rounds / max(FITTED[family].core for family in families)  # a run has one thread, however many there are
    return on_gpu < max(on_threads, alone)
