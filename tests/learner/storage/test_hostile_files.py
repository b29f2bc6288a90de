"""Files from a stranger: whatever is in them, loading and using them ends with a sentence or goes well, and never with a crash."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.auto import rule as auto_rule
from onebit.learner.learner import Learner, copy_learner, wrap_runtime
from onebit.learner.model_file import FORMAT, decode_file
from onebit.learner.state import dump_state, load_state
from tests.learner.storage.hostile import content_of, require_sound, write_seeds
from tests.slow import slow

X = np.random.default_rng(1).normal(size=(20, 3)) / 4.0
CASES, MANY, TOGETHER = 300, 100_000, 5_000


def assert_survives(folder: Path, first: int, last: int) -> None:
    """Load and use altered files in another process, and say what it died of, if it did."""
    command = [sys.executable, "-m", "tests.learner.storage.hostile", str(folder), str(first), str(last)]
    root = Path(__file__).parents[3]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env={**os.environ})
    said = ended.stdout.splitlines()
    raw = [line for line in said if line.startswith("raw")]
    assert not raw, raw[:5]
    assert ended.returncode == 0, (
        ended.returncode,
        [line for line in said if line.startswith("at")][-1:],
        ended.stderr,
    )
    done, cases, loaded = said[-1].split()
    assert (done, int(cases)) == ("done", last - first)
    assert int(loaded) > 0.1 * int(cases)  # else nothing was used


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    write_seeds(made)
    return made


@pytest.mark.long
def test_altered_files(folder: Path) -> None:
    assert_survives(folder, 0, CASES)


@slow
@pytest.mark.parametrize("first", range(0, MANY, TOGETHER))
def test_many_altered_files(folder: Path, first: int) -> None:
    assert_survives(folder, first, first + TOGETHER)


# --- what is known to have crashed, or to have come through raw ---------------------------------------------------------------


def trained(name: str = "bpa", **options: Any) -> Learner:
    learner = Learner(name, classes=3, **options)
    for number, x in enumerate(X):
        learner.learn(learner.decide(x), label=number % 3)
    return learner


def refusal(tmp_path: Path, learner: Learner, alter: Callable[[dict[str, Any], dict[str, Any]], None]) -> str:
    """Why the file of a learner is refused once it is altered."""
    manifest, arrays = dump_state(learner.runtime)
    manifest = json.loads(json.dumps(manifest))
    alter(manifest, arrays)
    path = tmp_path / "altered.onebit"
    path.write_bytes(content_of(manifest, arrays))
    with pytest.raises(onebit.OnebitError) as caught:
        onebit.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def put(array: str, place: Any, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def alter(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[array][place] = value

    return alter


def say(field: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def alter(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        *inside, name = field.split(".")
        for part in inside:
            manifest = manifest[part]
        manifest[name] = value

    return alter


@pytest.mark.parametrize(
    ("array", "place", "value"),
    [
        ("support_columns", 0, 2**31 - 1),
        ("support_columns", -1, -(2**31)),
        ("support_columns", 1, 3),
        ("support_starts", 1, 2**40),
        ("support_starts", -1, 0),
        ("support_starts", 0, 1),
        ("counts", 0, 10**6),
        ("counts", 0, 6),
        ("counts", 0, 0),
        ("counts", 0, -1),
        ("norms", 0, -1.0),
    ],
)
def test_a_kernel_file_with_an_index_out_of_bounds(tmp_path: Path, array: str, place: int, value: int) -> None:
    """All but the last few of these were SIGSEGV, or wrote where they should not."""
    learner = trained("banditron", kernel="rbf:1", space="sparse", max_support=5)
    assert array in refusal(tmp_path, learner, put(array, place, value))


def test_a_kernel_file_with_counts_that_are_too_short(tmp_path: Path) -> None:
    def cut(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["counts"] = arrays["counts"][:1]

    for space in ("dense", "sparse"):
        learner = trained("banditron", kernel="rbf:1", space=space, max_support=5)
        assert "'counts' has the shape (1,), but must have (2)" in refusal(tmp_path, learner, cut)


def test_an_auto_file_with_more_rows_than_there_is_room_for(tmp_path: Path) -> None:
    def lengthen(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["basis.rows"] = np.zeros((1025, arrays["basis.rows"].shape[1]), arrays["basis.rows"].dtype)

    learner = trained("auto", space="dense")
    assert "'basis.rows' has 1025 rows, but may have 1024" in refusal(tmp_path, learner, lengthen)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", "3"),
        ("format", 0),
        ("format", True),
        ("classes", 10**9),
        ("classes", {"a": 1, "b": 2}),
        ("next", -1),
        ("next", 2**64),
        ("taught", 1.5),
        ("seed", -1),
        ("rule", ["bpa"]),
        ("parameters.classes", 3),
        ("parameters.exploration", "much"),
        ("bias", 1),
        ("identity", 7),
        ("planned", 4),
        ("exploration_floor", 2.0),
        ("features.size", 2**31),
        ("features.size", 4),
        ("features.dtype", "float16"),
        ("features.dtype", "float64"),
        ("features.space", "sparse"),
        ("features.named", True),
        ("features.text", True),
        ("features.hash_bits", 30),
        ("ledger.watermark", None),
        ("ledger.moment", -5),
        ("machine", "mine"),
        ("kernel", {"kernel": "linear"}),
        ("kernel", {"kernel": "linear", "max_support": None, "classes": 3}),
        ("kernel", {"kernel": "linear", "max_support": None}),
    ],
)
def test_a_manifest_that_says_what_cannot_be(tmp_path: Path, field: str, value: Any) -> None:
    assert refusal(tmp_path, trained(bias=True), say(field, value))


def test_nothing_is_set_that_is_not_a_number_of_the_ledger(tmp_path: Path) -> None:
    manifest, arrays = dump_state(trained().runtime)
    manifest["ledger"] = {**manifest["ledger"], "record": 1}
    learner = wrap_runtime(load_state(manifest, arrays))
    decision = learner.decide(X[0])
    learner.learn(decision, right=True)
    with pytest.raises(onebit.OnebitError):  # it is still remembered what was learnt
        learner.learn(decision, right=True)


@pytest.mark.parametrize(("place", "value"), [(1, -2.0), (1, 0.5), (1, np.nan), (1, 1e300), (2, 21.0), (0, -1.0)])
def test_a_memory_that_no_learner_has(tmp_path: Path, place: int, value: float) -> None:
    """A number of feedbacks below 0 made the exploration of the offset tree NaN, and its label an index out of bounds."""
    assert "'memory' has" in refusal(tmp_path, trained("offset-tree"), put("memory", place, value))


def test_counts_of_auto_that_no_learner_has(tmp_path: Path) -> None:
    for place, value in ((auto_rule.EXPLORED, np.inf), (auto_rule.EXPLORED_RIGHT, 1e6), (auto_rule.RESTARTS, np.nan)):
        assert "'memory' has" in refusal(tmp_path, trained("auto", space="sparse"), put("memory", place, value))


def test_variances_below_nothing_are_refused(tmp_path: Path) -> None:
    assert "'variances' contains -1.0" in refusal(tmp_path, trained("thompson"), put("variances", (0, 0), -1.0))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vocabulary", '["a", "a", "b"]'),
        ("vocabulary", '["a", 1]'),
        ("vocabulary", '{"a": 1}'),
        ("vocabulary", '["a"'),
        ("vocabulary", "[" * 100_000),
        ("vocabulary", '["a"]'),
        ("learnt_strings", '[["a"]]'),
        ("learnt_strings", '[["a", -1]]'),
        ("learnt_strings", '[["a", 1], ["a", 2]]'),
        ("learnt_strings", '[[["a"], 1]]'),
        ("learnt_strings", "7"),
        ("learnt_strings", "\xff"),
    ],
)
def test_texts_in_a_file_that_are_not_what_they_must_be(tmp_path: Path, name: str, text: str) -> None:
    learner = Learner("bpa", classes=3, text=True)
    for words in ("one two", "two three"):
        learner.learn(learner.decide(words), right=True)

    def alter(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = np.frombuffer(text.encode("latin-1"), dtype=np.uint8)

    assert refusal(tmp_path, learner, alter)


def test_memory_is_asked_for_only_where_the_file_has_as_much(tmp_path: Path) -> None:
    """2^30 columns of a hundred classes would be 400 GiB, and the file says so in 20 bytes."""

    def alter(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        manifest["features"] |= {"hash_bits": 30, "size": 1 << 30, "named": True, "space": "sparse", "text": True}
        manifest["classes"] = [f"class {number}" for number in range(100)]
        for name in ("weights", "scale"):
            del arrays[name]

    assert "'weights' is missing" in refusal(tmp_path, trained(), alter)


def test_a_refusal_shows_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    assert "\x1b" not in refusal(tmp_path, trained(), say("rule", "\x1b[2J" * 1000))


def test_a_manifest_that_is_nested_deeply(tmp_path: Path) -> None:
    import safetensors.numpy

    _, arrays = dump_state(trained().runtime)
    for depth in (900, 950, 980, 990, 1000, 100_000):
        text = f'{{"checksum": 1, "format": {FORMAT}, "x": ' + "[" * depth + "]" * depth + "}"
        path = tmp_path / "nested.onebit"
        path.write_bytes(safetensors.numpy.save(arrays, metadata={"onebit": text}))
        with pytest.raises(onebit.OnebitError, match="nested\\.onebit is damaged"):
            onebit.load(path)


def test_a_dtype_that_numpy_has_not(tmp_path: Path) -> None:
    content = content_of(*dump_state(trained().runtime))
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["memory"] |= {"dtype": "BF16", "shape": [12]}
    text = json.dumps(header).encode()
    path = tmp_path / "altered.onebit"
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    with pytest.raises(onebit.OnebitError, match="not a learner"):
        onebit.load(path)


def test_numbers_that_have_run_out_are_a_sentence(tmp_path: Path) -> None:
    manifest, arrays = dump_state(trained().runtime)
    learner = wrap_runtime(load_state({**manifest, "next": 2**63 - 1}, arrays))
    last = learner.decide(X[0])
    for ask in (lambda: learner.decide(X[0]), lambda: learner.decide_many(X), lambda: onebit.run(learner, X, [0] * 20)):
        with pytest.raises(onebit.OnebitError):
            ask()
    learner.learn(last, right=True)
    learner.save(tmp_path / "last.onebit")
    assert onebit.load(tmp_path / "last.onebit").learnt == 21


def test_names_that_were_read_and_not_learnt_are_saved(tmp_path: Path) -> None:
    learner = Learner("bpa", classes=3, text=True)
    learner.learn(learner.decide("one two"), right=True)
    learner.runtime.read_table(["three four five six seven eight nine ten"])
    learner.save(tmp_path / "read.onebit")
    assert onebit.load(tmp_path / "read.onebit").features == 10
    assert copy_learner(learner).features == 10


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 1e9])
@pytest.mark.parametrize(
    "options",
    [pytest.param({}, id="weights"), pytest.param({"kernel": "linear"}, id="kernel", marks=pytest.mark.long)],
)
def test_a_scale_that_no_learner_has(tmp_path: Path, options: dict[str, Any], value: float) -> None:
    """Scores times a scale that is no number were none either, unseen, and `teach` of EPABF then read out of bounds."""
    assert re.search(
        "'scale' (contains|has the value) ", refusal(tmp_path, trained("epabf", **options), put("scale", 0, value))
    )


FAR = [np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 1e30, -1.0, 0.0, 1e-320]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("thompson", {}, id="diagonal"),
        pytest.param("newtron", {}, id="ball"),
        pytest.param("linucb", {"space": "sparse"}, id="diagonal-sparse"),
        pytest.param("soba", {"matrix": "full"}, id="full", marks=pytest.mark.long),
        pytest.param("bpa", {"kernel": "rbf:1", "max_support": 5}, id="kernel", marks=pytest.mark.long),
        pytest.param("auto", {"space": "dense"}, id="auto"),
        pytest.param("auto", {"space": "sparse"}, id="auto-sparse"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_number_that_no_learner_has_is_refused_or_does_no_harm(name: str, options: dict[str, Any]) -> None:
    """Whatever number of a file is altered: a decision that comes of it has probabilities, and is JSON, as is its explanation."""
    manifest, arrays = dump_state(trained(name, **options).runtime)
    chance, refused = np.random.default_rng(8), 0
    numbers = [one for one in sorted(arrays) if arrays[one].dtype.kind == "f" and arrays[one].size]
    for case in range(40 * len(FAR)):
        altered = {one: array.copy() for one, array in arrays.items()}
        chosen = altered[numbers[case // len(FAR) % len(numbers)]]
        chosen.flat[int(chance.integers(chosen.size))] = FAR[case % len(FAR)]
        try:
            learner = wrap_runtime(load_state(*decode_file(content_of(manifest, altered))))
            require_sound(learner.decide(X[case % len(X)]))
            json.dumps(learner.explain(X[case % len(X)]).to_dict(), allow_nan=False)
        except onebit.OnebitError:
            refused += 1
    assert refused >= 40 * 3  # those that are not finite at least


@pytest.mark.parametrize(("place", "value"), [(0, np.inf), (0, np.nan), (0, 1e300), (0, -1.0), (0, 0.0), (1, np.inf)])
@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_a_ball_that_no_learner_has(tmp_path: Path, space: str, place: int, value: float) -> None:
    """Scores times such a factor gave probabilities of a sum below 1, and a decision that is not JSON."""
    assert re.search(
        "'scale' (contains|has the value) ",
        refusal(tmp_path, trained("thompson", space=space), put("scale", place, value)),
    )


@pytest.mark.parametrize("value", [-np.inf, -1e300, 1e300, -5.0])
def test_a_trust_that_no_learner_has(tmp_path: Path, value: float) -> None:
    """Its exponential is divided by in an explanation."""
    learner = trained("auto", space="dense")
    assert re.search(
        "'shaped.trusts' (contains|has the value) ", refusal(tmp_path, learner, put("shaped.trusts", (0, 2), value))
    )


def test_needs_that_are_no_numbers_end_a_search() -> None:
    from onebit.rules.epabf import EPABF, rise

    needs = np.full(3, np.nan)
    for variant in range(3):
        # In Python an index out of bounds is an error.
        assert isinstance(rise(EPABF(classes=4, variant=variant), needs, 3, 1.0, 1.0, 0.0, 0.0), float)
