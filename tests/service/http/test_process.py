"""`onebit serve` as a process: what it refuses to start with, clients that are slow or send nonsense, and how it ends."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import httpx
import pytest

from onebit.cli import main
from onebit.cli.serve import OPTIONS, environment_variable
from onebit.contract.installation import install_command
from onebit.service.settings import Settings
from onebit.service.tokens import Tokens
from tests.service.driving import PATIENCE_S, rows_of
from tests.service.site import NEW, Process, answer_from, error_in, everything_from, process_in

PATIENCE = ("--request-timeout-s", "3")  # for half requests, and more than a machine that is busy takes for whole ones
MOST = 1_000_000
HEAD = b"POST /v1/tasks/fruit/decide HTTP/1.1\r\nHost: localhost\r\n"
BODY = b'{"x": [1, 2, 3]}'


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A service that waits three seconds for a request."""
    with process_in(tmp_path_factory.mktemp("service"), *PATIENCE, "--max-body", str(MOST)) as made:
        assert httpx.post(f"{made.url}/v1/tasks", json=NEW, timeout=PATIENCE_S).status_code == 201
        yield made


def works(process: Process) -> bool:
    return httpx.post(f"{process.url}/v1/tasks/fruit/decide", content=BODY, timeout=PATIENCE_S).status_code == 200


def answer_to(process: Process, content: bytes) -> tuple[int, bytes]:
    """The status and the body of what comes back until the service closes the connection."""
    with process.connect() as connection:
        connection.sendall(content)
        head, _, body = everything_from(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), body


HALVES = {
    "nothing": b"",
    "a letter": b"P",
    "a line": b"POST /v1/tasks/fruit/decide HTTP/1.1",
    "half a head": HEAD,
    "no body": HEAD + b"Content-Length: 16\r\n\r\n",
    "half a body": HEAD + b"Content-Length: 16\r\n\r\n" + BODY[:8],
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n10\r\n" + BODY[:8],
    "no last chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n10\r\n" + BODY + b"\r\n",
    "no request": b"\r\n\r\n",
}


def test_half_a_request_is_answered_when_time_is_up(process: Process) -> None:
    with contextlib.ExitStack() as stack:
        connections = {name: stack.enter_context(process.connect()) for name in HALVES}
        for name, connection in connections.items():
            connection.sendall(HALVES[name])
        assert works(process)
        for name, connection in connections.items():
            head, _, body = everything_from(connection).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 408"), name
            assert error_in(body)["code"] == "timeout"


def test_a_slow_client_does_not_win_time_with_every_byte(process: Process) -> None:
    closed = threading.Event()

    def drip(connection: socket.socket) -> None:
        for letter in HEAD + b"A: " + b"a" * 10_000:
            try:
                connection.sendall(bytes([letter]))
            except OSError:
                return
            if closed.wait(0.05):
                return

    with process.connect() as connection:
        dripping = threading.Thread(target=drip, args=(connection,))
        dripping.start()
        answer = everything_from(connection)
        closed.set()
        dripping.join()
    assert b" 408 " in answer.split(b"\r\n")[0]


def test_a_connection_may_rest_between_requests(process: Process) -> None:
    whole = HEAD + b"Content-Length: 16\r\n\r\n" + BODY
    with process.connect() as connection:
        for pause in (0.0, 4.0):  # nothing is arriving, so that nothing is late
            time.sleep(pause)
            connection.sendall(whole)
            assert answer_from(connection).startswith(b"HTTP/1.1 200")


def test_a_thousand_clients_at_once(process: Process) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("the system allows no thousand connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    whole = HEAD + b"Connection: close\r\nContent-Length: 16\r\n\r\n" + BODY
    try:
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(process.connect()) for _ in range(1000)]
            for connection in connections:
                connection.sendall(whole)
            answers = [everything_from(connection).partition(b"\r\n\r\n") for connection in connections]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert all(head.startswith(b"HTTP/1.1 200") for head, _, _ in answers)
    assert len({json.loads(body)["id"] for _, _, body in answers}) == 1000


def test_many_half_requests_keep_nobody_else_out(process: Process) -> None:
    connections = [process.connect() for _ in range(300)]
    try:
        for connection in connections:
            connection.sendall(HEAD)
        assert works(process)
        for connection in connections:
            assert b" 408 " in everything_from(connection)
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400),  # the beginning of TLS
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (HEAD + b"Content-Length: 16\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nten\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 2**20, 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: a\r\n" * 2**18, 431),
        (b"GET /" + b"a" * 2**20, 431),
    ],
)
def test_what_is_not_a_request_is_answered_in_the_shape_of_errors(
    process: Process, content: bytes, status: int
) -> None:
    with process.connect() as connection:
        with contextlib.suppress(OSError):  # it is closed before it has all
            connection.sendall(content)
        head, _, body = everything_from(connection).partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert error_in(body)["code"] == {400: "bad_request", 431: "too_large"}[status]
    assert works(process)


def test_a_hundred_megabytes(process: Process) -> None:
    """However they are sent, they are refused, and the memory of the service does not grow with them."""

    def memory() -> float:
        text = httpx.get(f"{process.url}/metrics").text
        return float(
            next(line for line in text.splitlines() if line.startswith("process_resident_memory_bytes")).split()[1]
        )

    before = memory()
    part = b" " * 2**16
    chunk = b"10000\r\n" + part + b"\r\n"
    for header, piece in ((b"Content-Length: 104857600\r\n\r\n", part), (b"Transfer-Encoding: chunked\r\n\r\n", chunk)):
        with process.connect() as connection:
            connection.sendall(HEAD + header)
            with contextlib.suppress(OSError):  # the service has heard enough
                for _ in range(1600):
                    connection.sendall(piece)
            answer = everything_from(connection)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert int(head.split()[1]) == 413
        assert error_in(body)["code"] == "too_large"
    assert memory() - before < 30e6
    assert works(process)


def test_trailers_are_for_nobody(process: Process) -> None:
    content = HEAD + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n10\r\n" + BODY + b"\r\n0\r\n"
    status, _ = answer_to(process, content + b"Authorization: Bearer nonsense\r\n" * 100 + b"\r\n")
    assert status == 200
    with process.connect() as connection, contextlib.suppress(OSError):
        for _ in range(1000):
            connection.sendall(content + b"A: " + b"a" * MOST)
    assert works(process)


def test_requests_in_a_row_are_answered_in_a_row(process: Process) -> None:
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    # What follows does not take the place of an answer.
    for rest, answered in ((last, 11), (b"GET", 10), (b"nonsense\r\n\r\n", 10)):
        with process.connect() as connection:
            connection.sendall(ask * 10 + rest)
            answers = everything_from(connection)
        assert answers.count(b'{"status":"ok"}') == answered
        assert answers.count(b"HTTP/1.1 408") == (rest == b"GET")


def test_too_many_requests_in_a_row_end_the_connection(process: Process) -> None:
    ask = HEAD + b"Content-Length: 16\r\n\r\n" + BODY
    with process.connect() as connection:
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                connection.sendall(ask * 10)
        answers = everything_from(connection)
    assert answers.count(b"HTTP/1.1 200") == answers.count(b"HTTP/1.1") < 10_000
    assert works(process)


@pytest.mark.parametrize(
    "asked", [b"OPTIONS * HTTP/1.1", b"CONNECT a.example:443 HTTP/1.1", b"GET http://a.example/v1 HTTP/1.1"]
)
def test_odd_targets(process: Process, asked: bytes) -> None:
    status, body = answer_to(process, asked + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert 400 <= status < 500
    error_in(body)


def test_a_request_for_another_protocol_is_answered_in_this_one(process: Process) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    with process.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n")
        assert answer_from(connection).startswith(b"HTTP/1.1 200")


def test_the_process_says_what_it_does_in_json(process: Process) -> None:
    listening = next(event for event in process.events if event["event"] == "listening")
    assert listening["open"] is True
    assert listening["tasks"] == []
    assert listening["level"] == "info"
    assert Path(listening["folder"]).is_dir()
    assert listening["seconds"] > 0
    open_to_all = next(event for event in process.events if event["event"] == "open")
    assert open_to_all["level"] == "warning"
    assert "everybody on this machine" in open_to_all["message"]
    assert all(event["time"].endswith("Z") for event in process.events)
    created = [event for event in process.events if event["event"] == "task-created"]
    assert [event["task"] for event in created] == ["fruit"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_under_way_be_done(tmp_path: Path, how: signal.Signals) -> None:
    process = Process(tmp_path)
    try:
        assert httpx.post(f"{process.url}/v1/tasks", json=NEW, timeout=PATIENCE_S).status_code == 201
        with process.connect() as idle, process.connect() as busy:
            busy.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 16\r\n\r\n")
            assert busy.recv(100).startswith(b"HTTP/1.1 100")  # the service waits for the body
            process._process.send_signal(how)
            assert everything_from(idle) == b""
            busy.sendall(BODY)
            answer = everything_from(busy)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer
    finally:
        code = process.end()
    assert code == 0
    assert process.events[-1]["event"] == "ended"
    identity = json.loads(answer.partition(b"\r\n\r\n")[2])["id"]
    assert rows_of(tmp_path, "SELECT id FROM decisions") == [(identity,)]


def test_tokens_are_heard_of_while_it_runs(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "elsewhere.json")
    first = tokens.create(["read"])
    with process_in(tmp_path / "data", ONEBIT_SERVE_TOKEN_FILE=str(tokens.path)) as process:
        assert next(event for event in process.events if event["event"] == "listening")["open"] is False
        path = f"{process.url}/v1/tasks"
        second = tokens.create(["read"])
        for token in (first, second):
            assert httpx.get(path, headers={"authorization": f"Bearer {token}"}).status_code == 200
        tokens.revoke(first)
        assert httpx.get(path, headers={"authorization": f"Bearer {first}"}).status_code == 401
        assert httpx.get(path, headers={"authorization": f"Bearer {second}"}).status_code == 200
        assert httpx.get(path).status_code == 401


def test_every_setting_is_an_option_and_a_variable() -> None:
    assert set(OPTIONS) == {field.name for field in fields(Settings)}
    for name in OPTIONS:
        assert environment_variable(name) == f"ONEBIT_SERVE_{name.upper()}"


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        ([], {}, "--data DIR is missing: the folder of the service (or set ONEBIT_SERVE_DATA)"),
        (["--data", ".", "--port", "65536"], {}, "'65536' is not a port"),
        (["--data", "."], {"PORT": "many"}, "ONEBIT_SERVE_PORT: 'many' is not a whole number"),
        (["--data", ".", "--drain-s", "0"], {}, "'0' is not a number of seconds above 0"),
        (
            ["--data", "."],
            {"REQUEST_TIMEOUT_S": "nan"},
            "ONEBIT_SERVE_REQUEST_TIMEOUT_S: 'nan' is not a number of seconds",
        ),
        (["--data", ".", "--max-body", "0"], {}, "'0' must be at least 1"),
        (["--data", ".", "--log-format", "xml"], {}, "'xml' must be json or text"),
        (["--data", ".", "--host", "0.0.0.0"], {}, "there are no tokens"),
        (["--data", ".", "--host", "::"], {}, "there are no tokens"),
        (["--data", "."], {"HOST": "0.0.0.0"}, "there are no tokens"),
        (["--data", ".", "--host", "no.such.name.invalid"], {}, "is not a known host name or address"),
        (["--data", "file"], {}, "file"),
    ],
)
def test_what_it_does_not_start_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    environment: dict[str, str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    for option in OPTIONS:
        monkeypatch.delenv(environment_variable(option), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(f"ONEBIT_SERVE_{name}", value)
    monkeypatch.setenv("ONEBIT_SERVE_PORT", environment.get("PORT", "0"))
    assert main(["serve", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1


def test_a_damaged_file_of_tokens_is_told_of_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tokens.json").write_text("{")
    assert main(["serve", "--data", str(tmp_path), "--port", "0"]) == 2
    assert "is not a token file, or is damaged" in capsys.readouterr().err


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--data", str(tmp_path), "--port", str(port)]) == 2
    err = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1 cannot be used" in err
    assert err.count("\n") == 1


def test_a_file_in_the_place_of_the_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wine.csv"
    file.write_text("a,b\n")
    assert main(["serve", "--data", str(file), "--port", "0"]) == 2
    assert (
        capsys.readouterr().err == f"onebit: --data {file} is a file, but must be a folder, or the name of a new one\n"
    )


def test_a_folder_that_is_taken(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    folder = next(event for event in process.events if event["event"] == "listening")["folder"]
    assert main(["serve", "--data", folder, "--port", "0"]) == 2
    assert "another `onebit serve` is using" in capsys.readouterr().err


def without(module: str, *command: str) -> str:
    """What a command says where a module is missing: in a process of its own, since others here have it."""
    program = f"import sys; sys.modules[{module!r}] = None; from onebit.cli import main; sys.exit(main({command!r}))"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 2
    return ended.stderr


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    err = without("uvicorn", "serve", "--data", str(tmp_path))
    assert f"the service needs uvicorn, which is not installed: {install_command('serve')}" in err


@pytest.mark.parametrize("command", [["serve"], ["token", "list"]])
def test_a_system_that_it_does_not_run_on_is_told_so(tmp_path: Path, command: list[str]) -> None:
    err = without("fcntl", *command, "--data", str(tmp_path))
    assert "the service runs on Linux and macOS" in err
    assert "pip" not in err


def test_words_for_people(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "onebit", "serve", "--data", str(tmp_path), "--port", "0", "--log-format", "text"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        lines = [running.stderr.readline() for _ in range(4)]
        running.send_signal(signal.SIGTERM)
        lines += running.stderr.readlines()
    assert running.returncode == 0
    assert f"starting on {tmp_path}" in lines[0]
    assert "listening on http://127.0.0.1:" in lines[1]
    address = lines[1].partition("listening on ")[2].partition(" ")[0]
    assert f"to play, open {address}/play/digits in a browser; all tasks are at {address}/" in lines[2]
    assert "warning: there are no tokens" in lines[3]
    assert lines[-1].endswith("ended\n")


@pytest.mark.parametrize("lost", [True, False])
def test_no_start_without_the_tokens_that_there_were(tmp_path: Path, lost: bool) -> None:
    """The file is lost, or another was named by mistake: one line, and nobody is let in."""
    command = [sys.executable, "-m", "onebit", "serve", "--data", str(tmp_path), "--port", "0"]
    if lost:
        (tmp_path / "closed").touch()
    else:
        command += ["--token-file", str(tmp_path / "mistyped.json")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert ("is missing" if lost else "does not exist") in ended.stderr
