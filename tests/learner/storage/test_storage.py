"""Saving and loading: golden files of every release, damaged files, other machines, crashes while writing."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import play, rows, state
from onebit.contract import files
from onebit.learner import model_file
from onebit.learner.learner import Learner
from onebit.rules import registry
from tests.golden import UNRELEASED, going_on, newest_release
from tests.golden.write import HERE, expected

GOLDEN = [
    (folder, name)
    for folder in sorted(HERE.iterdir())
    if folder.is_dir() and (folder / "expected.json").exists()
    for name in json.loads((folder / "expected.json").read_text())
]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    learner = Learner("bpa", classes=["no", "yes"], seed=1)
    play(learner, *rows(30, classes=2))
    learner.learn(learner.decide(rows(1)[0][0], id="späte Antwort"), right=True)
    learner.save(tmp_path / "learner.onebit")
    return tmp_path / "learner.onebit"


def refusal(path: Path) -> str:
    with pytest.raises(onebit.OnebitError) as caught:
        onebit.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_this_release_has_golden_files_of_every_rule() -> None:
    release = newest_release()
    written = {name for folder, name in GOLDEN if folder.name == release}
    assert written >= set(registry()) - UNRELEASED, "a new rule is named in UNRELEASED of tests/golden"
    assert not written & UNRELEASED, "a rule that was released is in UNRELEASED of tests/golden"


@pytest.mark.parametrize(("folder", "name"), GOLDEN, ids=[f"{folder.name}-{name}" for folder, name in GOLDEN])
def test_golden_file(folder: Path, name: str) -> None:
    """Loaded here or on any other machine, a golden learner scores as it did, to rounding, and can go on learning."""
    learner = going_on.loaded(folder / f"{name}.onebit")
    assert_alike(expected(learner), json.loads((folder / "expected.json").read_text())[name])


@pytest.mark.parametrize(("folder", "name"), GOLDEN, ids=[f"{folder.name}-{name}" for folder, name in GOLDEN])
def test_golden_learners_go_on_as_their_release_did(folder: Path, name: str) -> None:
    """Twenty rounds more, as the release itself played and learnt them."""
    learner = going_on.loaded(folder / f"{name}.onebit")
    assert_alike(going_on.going_on(name, learner), json.loads((folder / going_on.FILE).read_text())[name])


@pytest.mark.parametrize("version", ["", "1.0", "four", "1.x.0", "1.0.0rc", "1.0.0 and more", 4, None])
def test_a_file_of_no_version_is_refused(saved: Path, version: object) -> None:
    manifest, arrays = model_file.read_file(saved)
    model_file.write_file({**manifest, "version": version}, arrays, saved)
    assert "must be a version such as 1.0.0" in refusal(saved)


@pytest.mark.parametrize("version", ["1.0.0rc1", "1.0.0rc1.dev2", "1.0.0"])
def test_a_file_of_a_release_candidate_is_read(saved: Path, version: str) -> None:
    manifest, arrays = model_file.read_file(saved)
    model_file.write_file({**manifest, "version": version}, arrays, saved)
    assert onebit.load(saved).classes == tuple(manifest["classes"])


def assert_alike(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The same labels, and the same numbers to rounding."""
    assert found["learnt"] == wanted["learnt"]
    for one, other in zip(found["scores"], wanted["scores"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["propensities"], wanted["propensities"], rtol=1e-4)
    assert found["labels"] == wanted["labels"]


def test_file_is_arrays_and_a_manifest(saved: Path) -> None:
    import safetensors

    with safetensors.safe_open(saved, framework="numpy") as file:
        manifest = json.loads(file.metadata()["onebit"])
        assert {"weights", "scale", "memory"} <= set(file.keys())
    for name in ("format", "version", "rule", "parameters", "classes", "seed", "machine", "checksum", "next"):
        assert name in manifest
    assert manifest["rule"] == "bpa"
    assert manifest["version"] == onebit.__version__


def test_every_altered_byte_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for place in range(0, len(content), 13):
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        saved.write_bytes(bytes(damaged))
        assert refusal(saved)


def test_every_cut_is_refused(saved: Path) -> None:
    content = saved.read_bytes()
    for length in [0, 1, 7, 8, 9, len(content) // 3, len(content) - 100, len(content) - 1]:
        saved.write_bytes(content[:length])
        assert refusal(saved)


def test_other_files_are_refused(tmp_path: Path) -> None:
    import safetensors.numpy

    assert "there is no file" in refusal(tmp_path / "missing.onebit")
    text = tmp_path / "text.onebit"
    text.write_text("not a learner")
    assert "not a learner" in refusal(text)
    foreign = tmp_path / "foreign.onebit"
    foreign.write_bytes(safetensors.numpy.save({"weights": np.zeros(3)}))
    assert "no onebit manifest" in refusal(foreign)
    refusal(tmp_path)


def test_a_file_of_a_newer_format_is_refused(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = onebit.BPA(classes=3, kernel="linear")
    monkeypatch.setattr("onebit.learner.state.FORMAT", model_file.FORMAT + 1)
    learner.save(saved)
    monkeypatch.undo()
    assert "newer onebit" in refusal(saved)


def test_another_machine_warns_and_loads(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = model_file.platform_info()
    monkeypatch.setattr(model_file, "platform_info", lambda: {**here, "cpu": "x86_64 another"})
    with pytest.warns(UserWarning, match="agree up to rounding"):
        learner = onebit.load(saved)
    assert learner.learnt == 31


@pytest.mark.parametrize("identity", [3, "späte Antwort"])
def test_what_was_learnt_is_known_after_loading(saved: Path, identity: int | str) -> None:
    learner = onebit.load(saved)
    decision = learner.decide(rows(1)[0][0], id=identity)
    with pytest.raises(onebit.OnebitError, match="already"):
        learner.learn(decision, right=True)


def test_decisions_made_before_saving_are_learnt_after_loading(tmp_path: Path) -> None:
    learner = Learner("epabf", classes=3, seed=2)
    early = learner.decide([1.0, 0.5])
    learner.save(tmp_path / "a.onebit")
    loaded = onebit.load(tmp_path / "a.onebit")
    learner.learn(early, right=False)
    loaded.learn(early, right=False)
    assert state(learner) == state(loaded)


def test_a_learner_that_has_seen_nothing_is_saved_too(tmp_path: Path) -> None:
    for options in ({}, {"text": True}, {"hash_bits": 5}, {"features": 3}, {"space": "sparse"}):
        learner = Learner("bpa", classes=3, **options)
        learner.save(tmp_path / "new.onebit")
        assert state(onebit.load(tmp_path / "new.onebit")) == state(learner)


def test_names_and_hashing_survive(tmp_path: Path) -> None:
    for options in ({}, {"hash_bits": 4}):
        learner = Learner("bpa", classes=3, seed=5, **options)
        for number in range(20):
            learner.learn(learner.decide({f"f{number % 7}": 1.0, "ß": 0.5}), right=number % 3 == 0)
        learner.save(tmp_path / "named.onebit")
        loaded = onebit.load(tmp_path / "named.onebit")
        assert loaded.features == learner.features
        for x in ({"f3": 1.0, "new": 2.0}, {"ß": 1.0}):
            assert loaded.decide(x) == learner.decide(x)


def test_a_failed_write_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()
    learner = onebit.load(saved)
    learner.learn(learner.decide(rows(1)[0][0]), right=True)

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(onebit.OnebitError, match="No space left"):
        learner.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    learner = Learner("bpa", classes=2)
    with pytest.raises(onebit.OnebitError, match="cannot be written"):
        learner.save(tmp_path / "missing" / "learner.onebit")


def test_a_refusal_of_what_is_in_a_file_names_the_file(saved: Path) -> None:
    """Its checksum is right, and its content cannot be."""
    manifest, arrays = model_file.read_file(saved)
    model_file.write_file(manifest, {**arrays, "weights": arrays["weights"][:1]}, saved)
    with pytest.raises(onebit.InputError, match=f"^{saved} cannot be used: the array 'weights'"):
        onebit.load(saved)


def test_the_wrong_rule_is_refused(saved: Path) -> None:
    with pytest.raises(onebit.OnebitError, match="has the rule 'bpa'"):
        onebit.load(saved, rule=registry()["banditron"])


@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt, onebit.OnebitError("no"), OSError(28, "No space left on device")]
)
def test_a_file_that_was_not_finished_is_not_there(tmp_path: Path, failure: Any) -> None:
    path = tmp_path / "out"
    path.write_text("before")

    def fail() -> None:
        with files.open_atomically(path) as file:
            file.write(b"half")
            raise failure

    with pytest.raises((KeyboardInterrupt, onebit.OnebitError)):
        fail()
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    assert path.read_text() == "before"


def test_a_file_takes_the_place_of_the_old_one_and_a_link_stays(tmp_path: Path) -> None:
    path, link = tmp_path / ("é" * 125), tmp_path / "link"  # as long as a name may be
    path.write_text("before")
    link.symlink_to(path)
    with files.open_atomically(link) as file:
        file.write(b"after")
        assert path.read_text() == "before"
    assert link.is_symlink()
    assert path.read_text() == "after"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    with files.open_atomically(path) as file:
        file.write(b"rows")
    reader.join()
    assert found == [b"rows"]
    assert path.is_fifo()


@pytest.mark.parametrize("where", ["", "nowhere/file"])
def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path, where: str) -> None:
    with pytest.raises(onebit.OnebitError, match="cannot be written"), files.open_atomically(tmp_path / where) as file:
        file.write(b"rows")
    assert list(tmp_path.iterdir()) == []


def test_a_new_file_has_the_mode_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for mode in (0o600, 0o640, 0o664):
        path.write_bytes(b"old")
        path.chmod(mode)
        files.write_atomically(path, b"new")
        assert path.read_bytes() == b"new"
        assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_root_leaves_files_to_their_owner_or_to_that_of_the_folder(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 1235)
    path = tmp_path / "file"
    files.write_atomically(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)
    os.chown(path, 1236, 1237)
    files.write_atomically(path, b"newer")
    assert (path.stat().st_uid, path.stat().st_gid) == (1236, 1237)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_root_that_may_give_nothing_away_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in some containers, and on file systems of other machines."""

    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    os.chown(tmp_path, 1234, 1235)
    for name in ("fchown", "lchown", "fchmod"):
        monkeypatch.setattr(os, name, refused)
    for content in (b"new", b"newer"):
        files.write_atomically(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
