"""The webhook: signed events that are sent again until they are taken, over starts of the service too, and that nobody waits for."""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from onebit.cli import main
from onebit.cli.serve import address
from onebit.errors import InputError
from onebit.serve import webhook
from onebit.serve.webhook import FILE, FolderOutbox, Webhook, secret_in
from tests.serve.driving import PATIENCE_S, decided, run, service_in, until
from tests.serve.site import site_in
from tests.serve.test_drift import drifted

SECRET = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "RETRIES_S", (0.01, 0.01, 0.01))


def eventually(true: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


class Receiver:
    """Somebody who listens, and answers with these statuses in turn, the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = statuses[min(len(receiver.got), len(statuses) - 1)]
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(status)
                if status == 302:
                    self.send_header("location", f"{receiver.url}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []

    def listen(*statuses: int) -> Receiver:
        made.append(Receiver(*statuses))
        return made[-1]

    yield listen
    for one in made:
        one.close()


def test_an_event_is_signed(tmp_path: Path, receiver: Callable[..., Receiver]) -> None:
    there = receiver(204)
    hook = Webhook(there.url, SECRET, FolderOutbox(tmp_path))
    hook.start({})
    hook.offer(7, 40, "drift", 1_767_225_600.0, {"task": "fruit"})
    eventually(lambda: hook.delivered == 1)
    hook.stop()
    ((headers, body),) = there.got
    assert json.loads(body) == {"type": "drift", "timestamp": "2026-01-01T00:00:00.000Z", "data": {"task": "fruit"}}
    assert (headers["webhook-id"], headers["content-type"]) == ("drift-7-40", "application/json")
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < PATIENCE_S
    signed = f"drift-7-40.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


def test_what_is_not_taken_is_sent_again_with_the_same_id(tmp_path: Path, receiver: Callable[..., Receiver]) -> None:
    there = receiver(500, 503, 200)
    hook = Webhook(there.url, SECRET, FolderOutbox(tmp_path))
    hook.start({})
    hook.offer(1, 5, "drift", 0.0, {})
    eventually(lambda: hook.delivered == 1)
    hook.stop()
    assert [headers["webhook-id"] for headers, _ in there.got] == ["drift-1-5"] * 3
    assert (hook.failed, hook.waiting) == (2, 0)


def test_nobody_is_followed_elsewhere(tmp_path: Path, receiver: Callable[..., Receiver]) -> None:
    there = receiver(302, 200)
    hook = Webhook(there.url, SECRET, FolderOutbox(tmp_path))
    hook.start({})
    hook.offer(1, 5, "drift", 0.0, {})
    eventually(lambda: hook.delivered == 1)
    hook.stop()
    assert hook.failed == 1
    assert len(there.got) == 2


def test_it_is_given_up_in_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hook = Webhook("http://127.0.0.1:9", SECRET, FolderOutbox(tmp_path), post=lambda *_: 500)
    hook.start({})
    hook.offer(1, 5, "drift", 0.0, {})
    eventually(lambda: hook.given_up == 1)
    hook.stop()
    assert (hook.failed, hook.waiting) == (4, 0)
    assert "event drift-1-5 is given up: the webhook did not take it (status 500)" in caplog.text
    assert "did not take the last 4 attempts (status 500)" in next(hook.warnings()).sentence


def refuse(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    raise ConnectionRefusedError(111, "Connection refused")


def test_what_waits_survives_a_start(
    tmp_path: Path, receiver: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "RETRIES_S", (0.01, 3600.0))
    first = Webhook("http://127.0.0.1:9", SECRET, FolderOutbox(tmp_path), post=refuse)
    first.start({1: 3})
    first.offer(1, 3, "drift", 0.0, {})  # was there before: no news
    first.offer(1, 5, "drift", 0.0, {"number": 1})
    eventually(lambda: first.failed == 2)
    first.stop()
    kept = json.loads((tmp_path / FILE).read_text())
    assert [one["id"] for one in kept["waiting"]] == ["drift-1-5"]
    kept["waiting"][0]["due"] = 0.0  # an hour later
    (tmp_path / FILE).write_text(json.dumps(kept))
    there = receiver(200)
    second = Webhook(there.url, SECRET, FolderOutbox(tmp_path))
    second.start({1: 99})  # what was told is in the file
    second.offer(1, 5, "drift", 0.0, {"number": 2})  # told before
    second.offer(1, 8, "drift", 0.0, {"number": 3})
    eventually(lambda: second.delivered == 2)
    second.stop()
    assert [json.loads(body)["data"]["number"] for _, body in there.got] == [1, 3]
    third = Webhook(there.url, SECRET, FolderOutbox(tmp_path))
    third.start({})
    third.offer(1, 8, "drift", 0.0, {})
    third.stop()
    assert len(there.got) == 2


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(InputError, match=r"webhook.json is damaged"):
        Webhook("http://127.0.0.1:9", SECRET, FolderOutbox(tmp_path)).start({})


def test_a_service_sends_alarms_and_decides_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"whsec_{base64.b64encode(SECRET).decode()}\n")
    asked, go_on = threading.Event(), threading.Event()
    got: list[dict[str, Any]] = []

    def slow(url: str, body: bytes, headers: Mapping[str, str]) -> int:
        asked.set()
        go_on.wait(PATIENCE_S)
        got.append(json.loads(body))
        return 200

    monkeypatch.setattr(webhook, "_post", slow)
    options = {"webhook": "http://127.0.0.1:9/hook", "webhook_secret_file": secret}

    async def work() -> None:
        async with service_in(tmp_path / "data", **options) as service:
            await drifted(service)
            await until(asked.is_set)
            await decided(service, "meanwhile")
            go_on.set()
            await until(lambda: got)
        async with service_in(tmp_path / "data", **options) as service:
            await decided(service, "again")
        assert len(got) == 1

    run(work())
    assert got[0]["type"] == "drift"
    assert (got[0]["data"]["task"], got[0]["data"]["error"]) == ("fruit", 1.0)


def test_metrics_have_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(base64.b64encode(SECRET).decode())
    with site_in(tmp_path / "data", webhook="http://127.0.0.1:9", webhook_secret_file=secret) as site:
        text = site.ask("GET", "/metrics").text
    assert 'onebit_webhook_attempts_total{status="delivered"} 0.0' in text
    assert "onebit_webhook_waiting 0.0" in text


@pytest.mark.parametrize("content", ["", "short", "not base64 at all, with spaces and signs!", "ä"])
def test_what_is_no_secret_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "secret").write_text(content)
    with pytest.raises(InputError, match="must have 24 to 64 random bytes as base64"):
        secret_in(tmp_path / "secret")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        secret_in(tmp_path / "nothing")


def test_an_address_alone_is_not_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--data", str(tmp_path), "--port", "0", "--webhook", "https://example.org/"]) == 2
    assert "--webhook needs --webhook-secret-file FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["file:///etc/passwd", "example.org", "https://", "https://a:b/", "https://user:word@a/", "http://a/ b", "x"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not an address to send to"):
        address(text)
