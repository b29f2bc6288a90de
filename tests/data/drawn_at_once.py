"""The generators as their formulas read, every kind of draw for all rounds at once: what the pieces must give, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onebit.data.synthetic import NOISE, Labelled


def synsep10(rounds: int, seed: int, number: int = 10) -> Labelled:
    x = 2.0 * np.random.default_rng([number, seed]).random((rounds, 100), dtype=np.float32) - np.float32(1.0)
    return x, x.reshape(rounds, 10, 10).sum(axis=1, dtype=np.float64).argmin(axis=1)


def synsep10_released(rounds: int, seed: int) -> Labelled:
    x, _ = synsep10(rounds, seed, 12)
    return x, np.where(x[:, 99] > 0.0, 8, 9)


def synsep9(rounds: int, seed: int) -> Labelled:
    generator = np.random.default_rng([9, seed])
    owned = [generator.permutation(120)[: generator.integers(20, 41)] for _ in range(9)]
    y = generator.integers(0, 9, size=rounds)
    x = np.zeros((rounds, 400), dtype=np.float32)
    for label, words in enumerate(owned):
        rows = np.flatnonzero(y == label)
        on = generator.random((len(rows), len(words))).argsort(axis=1)[:, 5:]
        x[rows[:, None], words[on]] = 1.0
    others = np.argpartition(generator.random((rounds, 280), dtype=np.float32), 20, axis=1)[:, :20]
    x[np.arange(rounds)[:, None], 120 + others] = 1.0
    return x / np.sqrt(x.sum(axis=1, keepdims=True)), y


def noisy(made: Labelled, classes: int, number: int, seed: int) -> Labelled:
    generator = np.random.default_rng([number, seed])
    drawn = generator.integers(0, classes, size=len(made[1]))
    return made[0], np.where(generator.random(len(made[1])) < NOISE, drawn, made[1])


AT_ONCE: dict[str, Callable[[int, int], Labelled]] = {
    "synsep10": synsep10,
    "synnonsep10": lambda rounds, seed: noisy(synsep10(rounds, seed), 10, 11, seed),
    "synsep10-released": synsep10_released,
    "synnonsep10-released": lambda rounds, seed: noisy(synsep10_released(rounds, seed), 10, 13, seed),
    "synsep9": synsep9,
    "synnonsep9": lambda rounds, seed: noisy(synsep9(rounds, seed), 9, 14, seed),
}
