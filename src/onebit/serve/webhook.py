"""Events that are sent to an address of the operator's: signed, and sent again until somebody takes them.

The form is that of Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, which is HMAC-SHA256 over the three of id, time
and body. A thread of its own sends; nobody waits for it. What is not taken yet lies with the log, so that a new start goes on with it, and of the
nodes that share a log the next one that is the keeper. An event may be sent twice, where the service ended before it had noted that it was
taken; then it has the same id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import logging
import queue
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from email.message import Message
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from onebit.errors import InputError, OnebitError
from onebit.files import write_atomically
from onebit.serve.clock import rfc3339
from onebit.serve.log.errors import LogError
from onebit.serve.readiness import ReadinessWarning
from onebit.serve.settings import Settings
from onebit.version import VERSION

LOG = logging.getLogger("onebit.serve")
FILE = "webhook.json"  # in the data folder
# Seconds after which what was not taken is sent again, each a little later by chance; after the last of them it is given up.
RETRIES_S = (5.0, 60.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
TIMEOUT_S = 10.0
WARNED_AFTER = 3  # attempts in a row that failed
SHORTEST, LONGEST = 24, 64  # bytes of a secret
PREFIX = "whsec_"
Post = Callable[[str, bytes, Mapping[str, str]], int]


class Delivery(BaseModel):
    """An event that is not taken yet."""

    model_config = ConfigDict(extra="forbid")

    id: str
    body: str
    attempts: int
    due: float  # seconds since 1970


class _Outbox(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    told: dict[int, int]  # of each task, the last row of which an event was made
    waiting: list[Delivery]


Keep = Callable[[bytes], None]  # what waits, in the place of what was there; TakenOverError where another has it


class TakenOverError(OnebitError):
    """Another node sends now."""


class OutboxShelf(Protocol):
    """Where what waits is kept."""

    def taken(self) -> tuple[bytes | None, Keep]:
        """Take it from whoever had it: what is in it, None where there was never anything, and how it is written."""


class FolderOutbox:
    """A file of the data folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def taken(self) -> tuple[bytes | None, Keep]:
        """Read it."""
        try:
            content = self._path.read_bytes() if self._path.exists() else None
        except OSError as error:
            raise InputError(f"{self._path} cannot be read: {error.strerror or error}") from None
        return content, lambda changed: write_atomically(self._path, changed)


class Webhook:
    """Sends events to one address, from `start` to `stop`. Its thread alone touches what waits; who offers an event waits for nothing."""

    def __init__(self, url: str, secret: bytes, shelf: OutboxShelf, *, post: Post | None = None) -> None:
        self._url = url
        self._secret = secret
        self._shelf = shelf
        self._post = post or _post
        self._told: dict[int, int] | None = (
            None  # of each task, the last row of which an event was made, while it sends
        )
        self._outbox = _Outbox(told={}, waiting=[])
        self._news: queue.SimpleQueue[tuple[int, int, Delivery] | None] = queue.SimpleQueue()
        self.delivered = self.failed = self.given_up = 0  # since the start
        self._in_a_row = 0  # attempts that failed
        self._why = ""
        self._thread: threading.Thread | None = None

    @property
    def sends(self) -> bool:
        """Whether it does, or has been told to."""
        return self._told is not None

    def start(self, known: Mapping[int, int]) -> None:
        """Go on with what waits. Where nothing was ever sent, of each task the rows up to these are no news."""
        content, keep = self._shelf.taken()
        try:
            kept = None if content is None else _Outbox.model_validate_json(content)
        except ValidationError:
            raise InputError(
                f"{FILE} is damaged, which has the events that wait for the webhook: remove it, and they are not sent"
            ) from None
        outbox = self._outbox = kept or _Outbox(told=dict(known), waiting=[])
        self._told, self._news = outbox.told.copy(), queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, args=(outbox, self._news, keep), name="onebit-webhook", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Send no more; what waits is there at the next start."""
        self._told = None
        self._news.put(None)
        if self._thread is not None:
            self._thread.join(1.0)  # an attempt under way is not waited for: if it was not noted, it is made again

    def offer(self, task: int, row: int, kind: str, when: float, data: Mapping[str, Any]) -> None:
        """Send what happened to a task at a row of the log, unless that was done before; where this does not send, another does."""
        if self._told is not None and row > self._told.get(task, 0):
            self._told[task] = row
            body = json.dumps({"type": kind, "timestamp": rfc3339(when), "data": data})
            self._news.put((task, row, Delivery(id=f"{kind}-{task}-{row}", body=body, attempts=0, due=0.0)))

    @property
    def waiting(self) -> int:
        """How many are not taken yet."""
        return len(self._outbox.waiting)

    def warnings(self) -> Iterator[ReadinessWarning]:
        """What to warn of."""
        if self._in_a_row >= WARNED_AFTER:
            yield ReadinessWarning(
                f"the webhook did not take the last {self._in_a_row} attempts ({self._why}); {self.waiting} events wait for it"
            )

    def _run(self, outbox: _Outbox, coming: queue.SimpleQueue[tuple[int, int, Delivery] | None], keep: Keep) -> None:
        try:
            _keep(outbox, keep)
            while True:
                first = min(outbox.waiting, key=lambda one: one.due, default=None)
                try:
                    news = coming.get(timeout=None if first is None else max(0.0, first.due - time.time()))
                except queue.Empty:
                    assert first is not None
                    _keep(outbox, keep)  # where another node has taken over, it is that node's to send
                    self._send(outbox, first)
                    _keep(outbox, keep)
                    continue
                if news is None:
                    return
                task, row, delivery = news
                outbox.told[task] = row
                outbox.waiting.append(delivery)
                _keep(outbox, keep)
        except TakenOverError:
            if outbox is self._outbox:
                self._told = None

    def _send(self, outbox: _Outbox, one: Delivery) -> None:
        """One attempt."""
        body, now = one.body.encode(), int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": f"onebit/{VERSION}",
            "webhook-id": one.id,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(self._secret, one.id, now, body),
        }
        try:
            status = self._post(self._url, body, headers)
            why = None if status // 100 == 2 else f"status {status}"
        except (OSError, http.client.HTTPException) as error:
            why = str(getattr(error, "reason", error)) or type(error).__name__
        self._settle(outbox, one, why)

    def _settle(self, outbox: _Outbox, one: Delivery, why: str | None) -> None:
        """Note what became of an attempt."""
        about = {"event": "webhook", "id": one.id}
        if why is None:
            outbox.waiting.remove(one)
            self.delivered += 1
            self._in_a_row = 0
            LOG.info(f"event {one.id} was sent to the webhook", extra=about)
            return
        self.failed += 1
        self._in_a_row += 1
        self._why = why
        if one.attempts == len(RETRIES_S):
            outbox.waiting.remove(one)
            self.given_up += 1
            LOG.error(f"event {one.id} is given up: the webhook did not take it ({why})", extra=about)
            return
        wait_s = RETRIES_S[one.attempts] * random.uniform(1.0, 1.2)
        one.attempts += 1
        one.due = time.time() + wait_s
        LOG.warning(f"the webhook did not take event {one.id} ({why}); it is sent again in {wait_s:.0f} s", extra=about)


def _keep(outbox: _Outbox, keep: Keep) -> None:
    """Have it kept what waits. Where that cannot be now, the next change tries again: the log still knows of the alarms."""
    try:
        keep(outbox.model_dump_json().encode())
    except TakenOverError:
        raise
    except (OnebitError, LogError) as error:
        LOG.warning(f"what waits for the webhook cannot be kept: {error}", extra={"event": "webhook-not-kept"})


def signature(secret: bytes, identity: str, seconds: int, body: bytes) -> str:
    """What a receiver compares.

    >>> signature(base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    signed = hmac.new(secret, b"%b.%d.%b" % (identity.encode(), seconds, body), hashlib.sha256)
    return f"v1,{base64.b64encode(signed.digest()).decode()}"


def webhook_of(settings: Settings, shelf: OutboxShelf) -> Webhook | None:
    """The webhook that the operator has named, if any."""
    if settings.webhook is None:
        return None
    if settings.webhook_secret_file is None:
        raise InputError(
            "--webhook needs --webhook-secret-file FILE, the secret by which its receiver knows the service"
        )
    return Webhook(settings.webhook, secret_in(settings.webhook_secret_file), shelf)


def secret_in(path: Path) -> bytes:
    """The secret that a file has, as `whsec_` and base64."""
    try:
        text = path.read_text(encoding="ascii").strip()
        found = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except OSError as error:
        raise InputError(f"--webhook-secret-file {path} cannot be read: {error.strerror or error}") from None
    except (UnicodeError, binascii.Error):
        found = b""
    if not SHORTEST <= len(found) <= LONGEST:
        raise InputError(
            f"--webhook-secret-file {path} must have {SHORTEST} to {LONGEST} random bytes as base64, which `openssl rand -base64 32` makes"
        )
    return found


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Whoever answers elsewhere is not followed: only the operator says where events go."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Message, newurl: str) -> None:
        """None: the answer is the redirection itself."""


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """The status of an answer; what else is in it is not read."""
    request = urllib.request.Request(url, body, dict(headers), method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=TIMEOUT_S) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code
