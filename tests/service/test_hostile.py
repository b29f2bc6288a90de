"""Whatever one client sends, others are served: no piece of work holds the event loop for long, and memory stays bounded."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from onebit.service.maintenance.log_reader import LogReader
from onebit.service.settings import Settings
from onebit.service.store.reader import NO_END, PAGE_BYTES
from onebit.service.store.sqlite.store import SqliteStore
from tests.service.site import Process, Site, answer_from, error_in, everything_from, process_in, site_in

pytestmark = pytest.mark.long

LARGEST = Settings(data=Path()).max_body
MOST_VALUES = Settings(data=Path()).max_values
LONGEST_S = 0.25  # of processor time in one go; before there were limits these took seconds, up to minutes
LONG = b"1.2345678901234567"
NEW = {"classes": ["a", "b"], "learner": "banditron"}
TASKS: dict[str, dict[str, Any]] = {
    "numbers": {"features": {"kind": "numbers", "size": 64}},
    "dict": {"features": {"kind": "dict"}},
    "text": {"features": {"kind": "text"}},
    "wide": {"features": {"kind": "numbers", "size": 1}, "classes": 10_000},
}


def filled(unit: bytes, size: int = LARGEST) -> bytes:
    """A list of so many bytes."""
    return b"[" + unit * (size // len(unit) - 2) + b"1]"


def names(count: int, value: bytes = b"1") -> bytes:
    return b"{" + b",".join(b'"k%d":%b' % (number, value) for number in range(count)) + b"}"


def words(count: int) -> bytes:
    return b" ".join(b"w%d" % number for number in range(count))


# The path, the body, and the status of the answer.
BODIES: dict[str, tuple[str, bytes, int]] = {
    "many wrong feedbacks": ("numbers/feedback", filled(b"1,"), 413),
    "many feedbacks without right": ("numbers/feedback", filled(b'{"id":"a"},', 2**16), 422),
    "many decisions": ("numbers/decide", filled(b'{"x":[1]},'), 413),
    "a wrong one at the end": (
        "text/decide",
        b"[" + b'{"x":"%b"},' % words(50) * 9_999 + b'{"x":1}]',
        422,
    ),
    "unknown ids": ("numbers/feedback", orjson.dumps([{"id": "a" * 180 + str(n), "right": True} for n in range(10_000)]), 200),
    "a dict of many names": ("dict/decide", b'{"x":%b}' % names(800_000), 413),
    "the largest dict": ("dict/decide", b'{"x":%b}' % names(MOST_VALUES), 200),
    "a list of a dict of many names that are no numbers": ("dict/decide", b'[{"x":%b}]' % names(300_000, b'"a"'), 413),
    "many unknown fields": ("dict/decide", b"[%b]" % names(300_000), 413),
    "the largest dict of what are no numbers": ("dict/decide", b'{"x":%b}' % names(MOST_VALUES, b'"a"'), 422),
    "unknown fields": ("dict/decide", names(MOST_VALUES), 422),
    "a text of many words": ("text/decide", b'{"x":"%b"}' % words(1_700_000), 413),
    "the largest text": ("text/decide", b'{"x":"%b"}' % words(MOST_VALUES), 200),
    "one long word": ("text/decide", b'{"x":"%b"}' % (b"a" * (LARGEST - 10)), 413),
    "many numbers": ("numbers/decide", b'{"x":[%b1]}' % (b"1," * 999_000), 422),
    "many long numbers": ("numbers/decide", b'{"x":[%b1]}' % ((LONG + b",") * 800_000), 422),
    "a text among many numbers": ("numbers/decide", b'{"x":[%b"a",%b1]}' % (b"1," * 500_000, b"1," * 1000), 422),
    "two long lists": ("numbers/decide", b'{"x":[1],"x":[%b1]}' % (b"1," * 900_000), 422),
    "rows of numbers": ("numbers/decide", b"[" + b",".join([b'{"x":[%b]}' % b",".join([LONG] * 64)] * 5_000) + b"]", 200),
    "depth": ("numbers/decide", b'{"x":' + b"[" * (LARGEST // 2 - 10) + b"]" * (LARGEST // 2 - 10) + b"}", 400),
    "a long name": ("numbers/decide", b'{"x":[1],"%b":1}' % (b"a" * (LARGEST - 20)), 422),
    "a long id": ("numbers/feedback", b'[{"right":true,"id":"%b"}]' % (b"a" * (LARGEST - 50)), 422),
    "nothing but space": ("numbers/decide", b" " * LARGEST, 400),
    "half a text": ("numbers/decide", b'["' + b"a" * (LARGEST - 5), 400),
    "a large answer": ("wide/decide", orjson.dumps([{"x": [1.0]}] * 50), 200),
    "too large an answer": ("wide/decide", orjson.dumps([{"x": [1.0]}] * 100), 413),
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("service")) as made:
        for name, more in TASKS.items():
            assert made.ask("POST", "/v1/tasks", json={"name": name, **NEW, **more}).status_code == 201
        yield made


@pytest.fixture
def longest(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Processor times of the event loop's callbacks; the clock on the wall would measure what else the machine does."""
    found: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        found.append(time.thread_time() - began)

    monkeypatch.setattr(asyncio.Handle, "_run", timed)
    gc.collect()
    gc.freeze()  # what the tests before have left is not the service's own
    yield found
    gc.unfreeze()


@pytest.mark.parametrize("name", BODIES)
def test_no_body_holds_up_the_event_loop(site: Site, name: str, longest: list[float]) -> None:
    path, body, status = BODIES[name]
    answer = site.ask("POST", f"/v1/tasks/{path}", content=body)
    assert answer.status_code == status, answer.text[:500]
    if status != 200:
        assert len(answer.content) < 1500
        error_in(answer.content)
    assert max(longest) < LONGEST_S


@pytest.mark.parametrize("path", ["/v1/tasks/wide/decisions?limit=1000", "/v1/tasks/wide/stats", "/metrics"])
def test_no_answer_holds_up_the_event_loop(site: Site, path: str, longest: list[float]) -> None:
    for _ in range(2):
        site.ask("POST", "/v1/tasks/wide/decide", json=[{"x": [1.0]}] * 50)
    longest.clear()
    answer = site.ask("GET", path)
    assert answer.status_code == 200
    assert len(answer.content) < 3_000_000
    assert max(longest) < LONGEST_S


def test_many_classes_make_short_pages_and_before_goes_on(site: Site) -> None:
    site.ask("POST", "/v1/tasks/wide/decide", json=[{"id": f"page-{number}", "x": [1.0]} for number in range(20)])
    seen: list[str] = []
    path = "/v1/tasks/wide/decisions?limit=1000"
    before = ""
    while len(seen) < 20:
        page = site.ask("GET", path + before).json()["decisions"]
        assert 1 <= len(page) < 20
        seen += [one["id"] for one in page]
        before = f"&before={page[-1]['seq']}"
    assert seen[:20] == [f"page-{number}" for number in reversed(range(20))]


def test_places_in_large_bodies_are_those_of_the_whole_body(site: Site) -> None:
    def field(path: str, body: bytes) -> Any:
        answer = site.ask("POST", f"/v1/tasks/{path}/decide", content=body)
        return error_in(answer.content)["field"], error_in(answer.content)["message"]

    good = b'{"x":"%b"},' % words(1000)
    assert field("text", b"[" + good * 100 + b'{"x":7}]') == (
        "[100].x",
        "[100].x is 7, but must be a list or an object or a string",
    )
    assert field("text", b"[" + good * 100 + b'{"x":"a","id":""},' + good + good[:-1] + b"]")[0] == "[100].id"
    assert "expected value at line 1 column" in field("text", b"[" + good * 100 + b"x," + good[:-1] + b"]")[1]
    assert field("numbers", b'[{"x":[1]},{"x":[%bnull,1]}]' % (b"1," * 100_000)) == (
        "[1].x[100000]",
        "[1].x[100000] is null, but must be a number",
    )
    assert field("numbers", b'{"x":[%b1e999]}' % (b"1," * 100_000))[0] == "x[100000]"
    assert field("numbers", b'{"x":[%b1]} 7' % (b"1," * 100_000))[1].endswith(
        "trailing characters at line 1 column 200011"
    )


def test_a_large_body_is_what_a_small_one_is(tmp_path: Path) -> None:
    size = 60_000
    with site_in(tmp_path, max_values=100_000) as site:
        for name, features in {
            "numbers": {"kind": "numbers", "size": size},
            "dict": {"kind": "dict"},
            "text": {"kind": "text"},
        }.items():
            site.ask("POST", "/v1/tasks", json={**NEW, "name": name, "features": features})
        for name, x in {
            "numbers": [number / 7 for number in range(size)],
            "dict": {f"a[b,{number}": number / 7 for number in range(20_000)},
            "text": " ".join(f'"word\\{number}' for number in range(20_000)),
        }.items():
            asks = [{"id": "one", "x": x}, {"id": 'a\\"],[', "x": x}]
            assert site.ask("POST", f"/v1/tasks/{name}/decide", json=asks[0]).status_code == 200
            assert site.ask("POST", f"/v1/tasks/{name}/decide", json=asks).status_code == 200
            for ask in asks:
                path = f"/v1/tasks/{name}/decisions/{ask['id']}".replace("\\", "%5C")
                assert site.ask("GET", path).json()["x"] == x


def post(process: Process, path: str, body: bytes) -> int:
    """The status of the answer to a body; whoever refuses it may close before it is all sent."""
    with process.connect() as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        with contextlib.suppress(ConnectionError):
            connection.sendall(head.encode() + body)
        return int(everything_from(connection)[9:12] or 0)


def memory_of(process: Process) -> dict[str, int]:
    """What a process has, and what it had at most, in MB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {line[:5]: int(line.split()[1]) // 1024 for line in lines if line.startswith("Vm")}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_others_are_answered_and_memory_is_bounded_while_hostile_bodies_come(tmp_path: Path) -> None:
    chosen = ("many wrong feedbacks", "a dict of many names", "a text of many words", "many numbers", "rows of numbers")
    delays: list[float] = []
    with process_in(tmp_path) as process:
        for name in ("numbers", "dict", "text"):
            new = {"name": name, **NEW, **TASKS[name]}
            assert post(process, "/v1/tasks", json.dumps(new).encode()) == 201
        before = memory_of(process)["VmRSS"]
        over = threading.Event()

        def probe() -> None:
            with process.connect() as connection:
                while not over.wait(0.01):
                    began = time.perf_counter()
                    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert answer_from(connection).startswith(b"HTTP/1.1 200")
                    delays.append(time.perf_counter() - began)

        prober = threading.Thread(target=probe)
        prober.start()

        def hostile(name: str) -> None:
            path, body, status = BODIES[name]
            assert post(process, f"/v1/tasks/{path}", body) in (status, 0)

        senders = [threading.Thread(target=hostile, args=(name,)) for name in (*chosen, chosen[-1])]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        over.set()
        prober.join()
        more_memory = memory_of(process)["VmHWM"] - before
    assert max(delays) < 2.0  # on an idle machine some 50 ms; a machine that runs tests is not idle
    assert more_memory < 256


def test_a_log_of_large_rows_is_read_a_little_at_a_time(site: Site) -> None:
    asks = [{"id": f"large-{number}", "x": [float(number)]} for number in range(60)]
    for start in (0, 30):
        site.ask("POST", "/v1/tasks/wide/decide", json=asks[start : start + 30])
    site.ask("POST", "/v1/tasks/wide/feedback", json=[{"id": ask["id"], "right": True} for ask in asks])
    with LogReader(site.settings.data) as log:
        task = log.task("wide")
        reader = SqliteStore(site.settings.data).reader()
        events, more = reader.events(task.expected, 0, NO_END, 1000)
        reader.close()
        assert more
        assert (
            sum(len(event.decision.probabilities) + 8 * len(event.x) for event in events) < PAGE_BYTES + 10_000 * 8 + 8
        )
        assert [event.decision.id for event in log.events(task)] == [ask["id"] for ask in asks]
        assert {ask["id"] for ask in asks} <= {one.id for one in log.logged(task)}
