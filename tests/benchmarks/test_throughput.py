"""What the costs of auto are measured with: the rows that the peer reads, single rounds, and the bytes of a learner."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse
from benchmarks.peers import write_text
from benchmarks.streams.recipes import sparse
from benchmarks.throughput import _bytes_of, held_bytes, round_times
from benchmarks.workloads import Workload

X = np.array([[0.5, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, -1.25, 0.0]], dtype=np.float32)
Y = np.array([0, 2, 1])


def test_the_peer_reads_the_same_rows_whether_they_are_dense_or_sparse(tmp_path: Path) -> None:
    for name, rows in (("dense", X), ("sparse", sparse(scipy.sparse.csr_matrix(X)))):
        write_text(Workload(name, rows, Y, 3), tmp_path / name)
        assert (tmp_path / name).read_text() == "1 | f0:0.5 f2:2\n3 | \n2 | f1:-1.25\n"


def test_every_round_is_timed() -> None:
    generator = np.random.default_rng(0)
    rows = generator.random((40, 4), dtype=np.float32)
    spent = round_times(Workload("small", rows, generator.integers(0, 3, 40), 3))
    assert spent.shape == (40,)
    assert (spent >= 0).all()
    assert spent.sum() > 0


def test_the_bytes_of_a_learner_are_those_of_all_its_arrays() -> None:
    assert _bytes_of((np.zeros(3), 2.5, (np.zeros((2, 2), dtype=np.float32), ()))) == 24 + 16
    small, large = (Workload("rows", np.zeros((2, columns), dtype=np.float32), Y[:2], 3) for columns in (5, 50))
    assert 0 < held_bytes("auto", small) < held_bytes("auto", large)
