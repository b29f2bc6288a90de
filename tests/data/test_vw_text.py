"""Vowpal Wabbit's text files: what is read is what VW itself reads, and what cannot be a stream is refused with its line."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.cli import main
from onebit.data.vw_text import parse_line
from tests.data.reading import read

MASK = 2**32 - 1
LINES = [
    "1 |a b:2 c",
    "2 'tag |user:2 x 12:0.5 |b y",
    "3 touching| a:0 b",
    "1 |a a a b",
    "2 | 0:1 :3 :4 name:0.25",
    "3 | :0 :3 x:0 :5",
    "1 |a " + "0" * 30 + "7:2",
    "1 |a :1 :2 |b :3 |a :4 1:5",
    "1 |a 01 1 12a 007:3",
    "2 |a colour:red d:2 |a colour:blue",
    "3 1.0 'id | a|b c |  |d x",
    "   1   |a\tb\tc:.5 d:5. e:-2e-1",
    "2 |\u00e9t\u00e9 \u00fc:1 x\u00a0y",
    "3 |a:0.5 b:2 c:-1",
    "1 |",
    "2 |n -1:2 _:1 'q:3",
]


@pytest.fixture(scope="module")
def vw() -> Any:
    workspace = pytest.importorskip("vowpalwabbit").Workspace("--oaa 3 --quiet --noconstant")
    yield workspace
    workspace.finish()


def murmur(text: str, seed: int) -> int:
    """MurmurHash3 of 32 bits, by which VW places features."""
    data, found = text.encode(), seed
    for start in range(0, len(data), 4):
        block = data[start : start + 4]
        word = int.from_bytes(block, "little") * 0xCC9E2D51 & MASK
        word = ((word << 15) | (word >> 17)) & MASK
        found ^= word * 0x1B873593 & MASK
        if len(block) == 4:
            found = ((found << 13) | (found >> 19)) & MASK
            found = found * 5 + 0xE6546B64 & MASK
    found ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        found = (found ^ (found >> shift)) * factor & MASK
    return found


def hashed(name: str) -> int:
    """Where VW has the feature with this name of ours."""
    space, *feature = name.split("^") if "^" in name else ("", name)
    place = murmur(space, 0) if space else 0
    for word in feature:
        place = int(word) + place & MASK if word.isascii() and word.isdigit() else murmur(word, place)
    return place & (2**18 - 1)


@pytest.mark.long
@pytest.mark.parametrize("line", LINES)
def test_features_labels_and_tags_are_those_that_vw_reads(vw: Any, line: str) -> None:
    theirs, ours = vw.parse(line), parse_line(line)
    assert theirs.get_multiclass_label() == int(ours.label[0])
    assert theirs.get_tag() == ours.tag
    found: Counter[int] = Counter()
    for place, value in theirs.iter_features():
        found[(place >> 2) & (2**18 - 1)] += value
    expected = {hashed(name): value for name, value in ours.features.items()}
    assert dict(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.long
def test_a_file_is_a_stream_in_which_vw_sees_the_same(tmp_path: Path, vw: Any) -> None:
    path = tmp_path / "some.vw"
    path.write_text("\n".join(LINES) + "\n\n")
    data = read(path)
    assert data.classes == (1, 2, 3)
    assert data.y.tolist() == [int(parse_line(line).label[0]) - 1 for line in LINES]
    names = list(dict.fromkeys(name for line in LINES for name in parse_line(line).features))
    assert data.X.shape == (len(LINES), len(names))
    for row, line in enumerate(LINES):
        a, b = data.X.indptr[row : row + 2]
        kept = {names[column]: value for column, value in zip(data.X.indices[a:b], data.X.data[a:b], strict=True)}
        assert kept == pytest.approx(parse_line(line).features)
        assert np.all(np.diff(data.X.indices[a:b]) > 0)


def separable(rows: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    lines = []
    for label in generator.integers(1, 4, size=rows):
        lines.append(
            f"{label} |f c{label}:{generator.normal(2):.3f} noise:{generator.normal():.3f} |g w{generator.integers(50)}"
        )
    return lines


@pytest.mark.long
def test_vw_counts_as_many_examples_and_learns_them_too(tmp_path: Path) -> None:
    path = tmp_path / "some.vw"
    path.write_text("\n".join(separable(600, 1)) + "\n")
    workspace = pytest.importorskip("vowpalwabbit").Workspace(f"--oaa 3 --quiet -d {path}")
    stream = onebit.stream(path)
    assert stream.rounds == 600
    assert int(workspace.get_weighted_examples()) == 600
    assert workspace.get_sum_loss() / 600 < 0.1
    workspace.finish()
    assert onebit.run("bpa", path, bias=True).error < 0.15


def test_packed_files_and_named_labels(tmp_path: Path) -> None:
    path = tmp_path / "names.vw.gz"
    path.write_bytes(gzip.compress(b"cat | a\ndog | b\ncat | a b\ndog | b c\n"))
    data = read(path)
    assert data.classes == ("cat", "dog")
    assert data.y.tolist() == [0, 1, 0, 1]
    assert read(path, classes=["dog", "cat", "cow"]).y.tolist() == [1, 0, 1, 0]


def test_large_files_are_mapped_and_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.vw"
    path.write_text("\n".join(separable(300, 2)))
    held = read(path)
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ONEBIT_LARGE_FILE", "100")
    monkeypatch.setattr("onebit.data.file_blocks.LINES", 64)
    mapped = read(path)
    assert isinstance(mapped.X.data, np.memmap)
    for ours, theirs in (
        (held.X.data, mapped.X.data),
        (held.X.indices, mapped.X.indices),
        (held.X.indptr, mapped.X.indptr),
    ):
        assert np.array_equal(ours, theirs)


BAD = {
    "1:0:0.5 | a": "line 3 .* action:cost:probability",
    "1:0.5 2:1 | a": "line 3 .* costs of classes",
    "shared | a": "line 3 .* features of their own",
    "| a": "line 3 .* expected a label",
    "1 a b": "line 3 .* expected a | before",
    "1\t| a": "line 3 .* a tab",
    "1 2.5 | a": "line 3 .* the weight '2.5'",
    "1 1 1 | a": "line 3 .* expected a class",
    "1 |a b:": "line 3 .* 'b:' is not a feature",
    "1 |a b:1:2": "line 3 .* is not a feature",
    "1 |a b:nan": "line 3 .* is not a feature",
    "1 |a b:1e": "line 3 .* must be a number or a word",
    "1 |a:x b": "line 3 .* the value of the namespace 'a'",
    "1 |a b:1e300": "line 3 .* 32 bits",
    "1 |a:1e300 b:1e300": "line 3 .* 32 bits",
    "0.5 | a": "line 3 .* the label is 0.5",
    "9" * 5000 + " | a": "line 3 .* classes are whole numbers",
    "5 | a": "line 3 and nowhere else",
}


@pytest.mark.parametrize("line", BAD)
def test_what_cannot_be_used_is_refused_with_its_line(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.vw"
    path.write_text(f"1 | a\n2 | b\n{line}\n1 | a\n2 | b\n")
    with pytest.raises(onebit.InputError, match=BAD[line].replace("|", r"\|")):
        read(path)
    assert main(["run", "bpa", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "line 3" in said


def refusals() -> dict[str, Callable[[Path], object]]:
    return {
        "no rows": lambda path: path.write_text("\n\n"),
        "no features": lambda path: path.write_text("1 |\n2 |\n1 |\n2 |\n"),
        "not UTF-8": lambda path: path.write_bytes(b"1 | a\n2 | \xff\n"),
    }


@pytest.mark.parametrize("what", refusals())
def test_files_that_are_none(what: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.vw"
    refusals()[what](path)
    with pytest.raises(onebit.InputError, match=what):
        read(path)
