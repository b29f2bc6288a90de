"""`onebit export --follow`: other programs hear of what comes, through restarts of the service, and resume by position."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from onebit.cli import main
from tests.service.driving import Where, decided, heard, hint, new_task, run, service_in


def test_what_comes_is_written_until_ctrl_c(where: Where) -> None:
    folder = where

    async def create() -> None:
        async with service_in(folder) as service:
            await service.create(new_task())
            await decided(service, "a")

    async def go_on() -> None:
        async with service_in(folder) as service:
            await heard(service, "a")
            await decided(service, "b")
            await service.feedback("fruit", [hint("a", False, revise=True)])

    run(create())
    command = [sys.executable, "-m", "onebit", "export", str(folder), "fruit", "--format", "ndjson", "--follow"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch = threading.Timer(120.0, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        lines: list[dict[str, Any]] = [json.loads(process.stdout.readline())]
        run(go_on())  # another life of the service
        lines += [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    finally:
        watch.cancel()
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert said.decode() == f"followed up to position {lines[-1]['position']}\n"
    assert [(one["id"], one["right"]) for one in lines] == [("a", None), ("a", True), ("b", None), ("a", False)]
    positions = [one["position"] for one in lines]
    assert positions == sorted(set(positions))
    resumed = subprocess.Popen([*command, "--after", str(positions[1])], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    watch = threading.Timer(120.0, resumed.kill)
    watch.start()
    try:
        assert resumed.stdout is not None
        assert [json.loads(resumed.stdout.readline()) for _ in range(2)] == lines[2:]
    finally:
        watch.cancel()
        resumed.send_signal(signal.SIGINT)
        resumed.communicate()


@pytest.mark.parametrize(
    "wrong",
    [
        ["--format", "vw", "--follow"],
        ["--format", "ndjson", "--follow", "--out", "x"],
        ["--format", "ndjson", "--after", "3"],
    ],
)
def test_what_is_refused(where: Where, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(where), "fruit", *wrong]) == 2
    assert "--follow" in capsys.readouterr().err
