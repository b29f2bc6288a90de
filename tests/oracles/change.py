"""The slow twin of the change detector, which `auto` has for dense and for sparse rows.

Specification: docs/explanation/auto-method.md#the-change-detector, with its letters but for the level, ps, and the length of a bucket, len.
"""

from __future__ import annotations

import math


class Change:
    """Says after which answer everything is to be learnt anew."""

    def __init__(self, classes: int) -> None:
        self.K = classes
        self.pc = 1.0 - 1.0 / classes
        self.restarts = 0
        self.start()

    def start(self) -> None:
        self.n = self.M = self.cb = self.mb = 0
        self.U = 0.0
        self.len = 100
        self.p0 = self.pc

    def heard(self, right: bool) -> bool:
        """Whether this answer is the one too many; the detector then is as in the beginning."""
        mis = 0 if right else 1
        self.n += 1
        self.M += mis
        self.cb += 1
        self.mb += mis
        if self.cb >= self.len:
            ph = (self.mb + 1) / (self.cb + 2)
            self.p0 = min(self.pc, ph + 2.0 * math.sqrt(ph * (1.0 - ph) / self.cb))
            self.len = max(100, self.n)
            self.cb = self.mb = 0
        if self.p0 >= self.pc:
            return False
        ps = self.p0 + (self.pc - self.p0) / 8.0
        self.U = max(0.0, self.U + mis - ps)
        rare = 16.0 / math.log(ps * (1.0 - self.p0) / (self.p0 * (1.0 - ps)))
        if max(rare, 10.0 + 2.0 * self.K, (self.M - self.U - self.p0 * self.n) / 4.0) >= self.U:
            return False
        self.restarts += 1
        self.start()
        return True
