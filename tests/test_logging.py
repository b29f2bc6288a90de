"""What onebit has to say while it works is logged: a program that uses it sees nothing unless it asks, the command line shows it."""

from __future__ import annotations

import argparse
import logging
import os
import pty
import subprocess
import sys

import pytest

from onebit.cli import main

PROGRAM = """
import logging, onebit
{asked}
logging.getLogger("onebit.engine").info("compiling Banditron, once")
logging.getLogger("onebit.experiments.executors").warning("the worker a is left out")
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
        "onebit.experiments.executors: the worker a is left out",
    ]


@pytest.mark.parametrize(
    ("terminal", "asked", "said"),
    [
        (True, "", "onebit: compiling Banditron, once\n"),
        (False, "", ""),
        (False, "sys.ps1 = '>>> '", "onebit: compiling Banditron, once\n"),
        (True, "logging.basicConfig(level=logging.WARNING)", ""),
        (True, "logging.getLogger('onebit').addHandler(logging.StreamHandler())", ""),
        (True, "sys.stderr = None", ""),
    ],
    ids=["a terminal", "no terminal", "a prompt", "a log of warnings", "a handler of ours", "no stderr"],
)
def test_whoever_waits_at_a_terminal_is_told_what_for(terminal: bool, asked: str, said: str) -> None:
    """Unless the program says where its log goes."""
    program = f"import logging, sys, onebit\n{asked}\nfrom onebit.engine.compile import _announce_work\n_announce_work('compiling Banditron, once')"
    shown, given = pty.openpty() if terminal else os.pipe()
    with os.fdopen(given, "wb"):
        subprocess.run([sys.executable, "-c", program], stderr=given, check=True)
        os.write(given, b".")  # so that there is something to read
    with os.fdopen(shown, "rb") as file:
        text = ""
        while not text.endswith("."):  # a terminal may hand over what was written in parts
            text += os.read(file.fileno(), 1000).decode()
        assert text.replace("\r\n", "\n") == f"{said}."


def test_the_command_line_shows_what_takes_long_and_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(args: argparse.Namespace) -> int:
        logging.getLogger("onebit.engine").info("compiling Banditron, once")
        logging.getLogger("onebit.experiments.executors").info("bpa on digits runs on threads: few rounds")
        logging.getLogger("onebit.service").info("starting")
        logging.getLogger("onebit.service").warning("a snapshot is quarantined")
        return 0

    monkeypatch.setattr("onebit.cli.data.execute", execute)
    for _ in range(2):  # and after the first there is no handler left that would say it twice
        assert main(["data"]) == 0
        assert capsys.readouterr().err.splitlines() == [
            "onebit: compiling Banditron, once",
            "onebit: bpa on digits runs on threads: few rounds",
            "onebit: a snapshot is quarantined",
        ]
    assert logging.getLogger("onebit.engine").level == logging.NOTSET
    assert all(isinstance(one, logging.NullHandler) for one in logging.getLogger("onebit").handlers)
