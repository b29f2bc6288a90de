"""What docs/start/serving.md, docs/reference/service.md and docs/how-to/deployment.md show is run, against the real service."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onebit.client import Client
from onebit.service.tokens import Tokens
from tests.client.pages import ROOT, Example, Shell, examples
from tests.service.driving import PATIENCE_S
from tests.service.site import Process

pytestmark = pytest.mark.long

SHOWN = "http://127.0.0.1:8000"  # on the pages
START = "onebit serve --data ./onebit-data"

needs_programs = pytest.mark.skipif(
    any(shutil.which(name) is None for name in ("bash", "curl", "sqlite3")), reason="bash, curl or sqlite3 is missing"
)


@needs_programs
@pytest.mark.parametrize("page", ["docs/start/serving.md", "docs/reference/service.md"])
def test_what_the_pages_show_can_be_done(page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *rest = [one for one in examples(page) if one.language not in ("text", "yaml")]
    assert first.text.strip() == START
    service = Process(tmp_path / "onebit-data")
    shell = Shell(tmp_path)
    said, names = "", dict[str, Any]()
    try:
        for example in rest:
            text = example.text.replace(SHOWN, service.url)
            if example.language == "bash":
                said = _said(shell, example, text)
            elif example.language == "python":
                exec(compile(text, f"{page}:{example.line}", "exec"), names)
            elif example.language == "ts":
                _run_by_node(text, tmp_path)
            elif example.language == "json":
                _same_form(json.loads(example.text), json.loads(said), f"{page}:{example.line}")
            else:
                raise AssertionError(f"nobody knows how to run {example.language} (line {example.line})")
    finally:
        shell.close()
        service.end()
    printed = capsys.readouterr().out.split("\n")
    if page == "docs/reference/service.md":
        assert (
            "409 conflict decision 'mail-1' was already reported as wrong, and the first feedback counts: give revise to replace it"
            in printed
        )


def _said(shell: Shell, example: Example, text: str) -> str:
    said, status = shell.run(text)
    assert status == 0, f"line {example.line}: {said}"
    assert ('"error":{' in said) is ('{"x": 3}' in text), f"line {example.line}: {said}"  # the one that shows an error
    return said


def _run_by_node(text: str, folder: Path) -> None:
    """Run what has no types in it, where node is."""
    node, program = shutil.which("node"), folder / "example.mjs"
    if node is not None:
        client = ROOT / "clients" / "typescript" / "index.js"
        program.write_text(text.replace('"onebit-client"', json.dumps(client.as_uri())))
        done = subprocess.run([node, str(program)], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr


def _same_form(shown: Any, found: Any, place: str) -> None:
    """Whether two pieces of JSON have the same fields of the same kinds; labels and probabilities are drawn."""
    assert type(shown) is type(found), place
    if isinstance(shown, dict):
        assert set(shown) == set(found), place
        for name, value in shown.items():
            _same_form(value, found[name], f"{place}: {name}")


@pytest.fixture
def at_the_end() -> Iterator[ExitStack]:
    """What is to be done however the test ends: a service that is left running would keep this process from ending."""
    with ExitStack() as stack:
        yield stack


@needs_programs
def test_a_backup_made_as_the_page_says_can_be_restored(tmp_path: Path, at_the_end: ExitStack) -> None:
    """Under load, with snapshots that come and go; what is restored equals what its log alone gives, bit for bit."""
    blocks = {one.text.split("=")[0].split("\n")[0]: one.text for one in examples("docs/how-to/deployment.md")}
    backup, restore = (
        blocks[first]
        .replace("/var/lib/onebit", str(tmp_path / "lib"))
        .replace("/var/backups", str(tmp_path / "backups"))
        .replace("/opt/onebit/bin/onebit", "onebit")
        for first in ("BACKUP", "systemctl stop onebit")
    )
    folder = tmp_path / "lib"
    token = Tokens(folder / "tokens.json").create(["admin"])
    service = Process(folder, "--snapshot-every", "50", "--keep-snapshots", "2")
    at_the_end.callback(service.end)
    shell = Shell(tmp_path / "shell", {"systemctl": "true", "chown": "true"})
    at_the_end.callback(shell.close)
    rows = np.random.default_rng(0).normal(size=(4000, 3))
    ending = threading.Event()

    def load() -> None:
        with Client(service.url, token) as client:
            task = client.create_task("points", 2, 3, learner="banditron")
            for start in range(0, len(rows), 20):
                decided = task.decide_many(rows[start : start + 20])
                task.feedback_many(
                    decided, [one.label == int(x[0] > 0) for one, x in zip(decided, rows[start:], strict=False)]
                )
                if ending.is_set():
                    return

    loading = threading.Thread(target=load)
    loading.start()
    at_the_end.callback(loading.join)
    at_the_end.callback(ending.set)
    while loading.is_alive() and not list(folder.glob("snapshots/*/*.onebit")):
        time.sleep(0.01)
    said, status = shell.run(backup)
    ending.set()
    loading.join()
    assert " is intact: " in said  # cp may have met a snapshot that was going
    assert status == 0
    (copy,) = (tmp_path / "backups" / "onebit").iterdir()
    assert list(copy.glob("snapshots/*/*.onebit"))
    shutil.copytree(copy, tmp_path / "alone", ignore=shutil.ignore_patterns("snapshots"))
    with Client(service.url, token) as client:
        more = client.task("points").info().learnt
    service.end()
    said, status = shell.run(restore)
    shell.close()
    assert (said.strip(), status) == ("", 0)
    states = []
    for place in (folder, tmp_path / "alone"):
        again = Process(place)
        at_the_end.callback(again.end)
        with Client(again.url, token) as client:
            task = client.task("points")
            states.append((task.info().learnt, task.decide_many(rows[:50], ids=[f"new-{n}" for n in range(50)])))
        used = [event["snapshot"] for event in again.events if event["event"] == "task-ready"]
        assert (used[0] > 1) is (place == folder)  # a snapshot was taken where there was one
        again.end()
    assert states[0] == states[1]
    assert 0 < states[0][0] <= more
