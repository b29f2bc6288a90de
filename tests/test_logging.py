"""What onebit has to say while it works is logged: a program that uses it sees nothing unless it asks, the command line shows it."""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys

import pytest

from onebit.cli import main

PROGRAM = """
import logging, onebit
{asked}
logging.getLogger("onebit.engine").info("compiling Banditron, once")
logging.getLogger("onebit.executors").warning("the worker a is left out")
"""


def said_by(asked: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(asked=asked)], capture_output=True, text=True, check=True
    )
    return answer.stdout + answer.stderr


def test_a_program_sees_nothing_unless_it_asks() -> None:
    assert said_by("") == ""
    asked = 'logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")'
    assert said_by(asked).splitlines() == [
        "onebit.engine: compiling Banditron, once",
        "onebit.executors: the worker a is left out",
    ]


def test_the_command_line_shows_what_takes_long_and_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(chosen: argparse.Namespace) -> int:
        logging.getLogger("onebit.engine").info("compiling Banditron, once")
        logging.getLogger("onebit.executors").info("bpa on digits runs on threads: few rounds")
        logging.getLogger("onebit.serve").info("starting")
        logging.getLogger("onebit.serve").warning("a snapshot is set aside")
        return 0

    monkeypatch.setattr("onebit.cli.data.execute", execute)
    for _ in range(2):  # and after the first there is no handler left that would say it twice
        assert main(["data"]) == 0
        assert capsys.readouterr().err.splitlines() == [
            "onebit: compiling Banditron, once",
            "onebit: bpa on digits runs on threads: few rounds",
            "onebit: a snapshot is set aside",
        ]
    assert logging.getLogger("onebit.engine").level == logging.NOTSET
    assert all(isinstance(one, logging.NullHandler) for one in logging.getLogger("onebit").handlers)
