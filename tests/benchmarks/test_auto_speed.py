"""What the costs of auto are measured with: the rows that the peer reads, single rounds, the bytes of a learner, and the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse
from benchmarks.auto_speed import WORKLOADS, _bytes_of, held_bytes, round_times
from benchmarks.measuring import Measurement, at_least, markdown
from benchmarks.peers_vw import write_text
from benchmarks.recipes import sparse
from benchmarks.throughput import BLOCKS, SECTIONS
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


def test_a_section_is_a_table_for_its_page() -> None:
    lines = markdown([Measurement("digits", 0.071, "times", at_least(0.5), "VW 129"), Measurement("mnist", None)])
    assert lines[2] == "| digits | 0.071 times | >= 0.5 | missed | VW 129 |"
    assert lines[3] == "| mnist |  |  | not measured |  |"
    for section, (page, name) in BLOCKS.items():
        assert section in SECTIONS
        assert f"<!-- {name} begins -->\n" in page.read_text()
        assert f"<!-- {name} ends -->\n" in page.read_text()
    assert len(WORKLOADS) == 7
