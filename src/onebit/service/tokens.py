"""Access tokens of the service: random, stored only as hashes, in one JSON file.

A token is `onebit_ID_SECRET`. Several processes may change the file while a service runs: each change is atomic, and the service checks the file at every
request, so that a revoked token is refused from then on.

While the file exists but cannot be read, the tokens that were read last stay valid: too many open files, or a wrong owner for a moment, must not lock
everybody out. Revocations are not seen meanwhile, which is reported in the log, in `/readyz` and in a metric. If no tokens were read before, or if the file
is gone, all requests are refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import logging
import math
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from onebit.contract.files import match_folder_owner, write_atomically
from onebit.errors import InputError, OnebitError, brief, nearest
from onebit.service.errors import ReadinessWarning, UnauthorizedError, UnavailableError
from onebit.service.requests import TaskName

Scope = Literal["decide", "feedback", "read", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PREFIX = "onebit"
LOGGED_S = 60.0  # between two log lines about a problem
LOG = logging.getLogger("onebit.service")
_NOBODY = hashlib.sha256(b"").hexdigest()  # compared with the secret of an unknown token


class Token(BaseModel):
    """The stored data of a token: everything but its secret."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str | None
    digest: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    scopes: list[Scope]
    tasks: list[str] | None
    created: float
    revoked: float | None
    expires: float | None

    @property
    def principal(self) -> Principal:
        """The caller who presents this token."""
        scopes = SCOPES if "admin" in self.scopes else self.scopes
        tasks = None if self.tasks is None else frozenset(self.tasks)
        return Principal(self.id, frozenset(scopes), tasks, self.expires)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    tokens: list[Token]


@dataclass(frozen=True)
class Principal:
    """The caller, and what it may do."""

    id: str | None  # None: anybody, if the service has no tokens
    scopes: frozenset[str]
    tasks: frozenset[str] | None  # None: all of them
    expires: float | None = None

    def sees(self, task: str) -> bool:
        """Return True if the caller may know of this task."""
        return self.tasks is None or task in self.tasks


ANYBODY = Principal(None, frozenset(SCOPES), None)


class Tokens:
    """The tokens of a service. Without a file it is open; once there was a file, it never opens again.

    `closed` is a marker file that records this after the process has ended, even if the token file is lost.
    """

    def __init__(self, path: Path, closed: Path | None = None) -> None:
        self.path = path
        self._closed = closed  # the marker file, until it is known to exist
        self._stamp: tuple[int, ...] | None = None  # of the tokens that were read last; None before any were
        self._valid: dict[str, Token] = {}  # those that are not revoked, by id
        self._trouble: str | None = None  # why the tokens cannot be read now
        self._logged = -math.inf  # when the current problem was last logged

    @property
    def name(self) -> str:
        """Location of the tokens, for messages."""
        return str(self.path)

    def create(
        self,
        scopes: Iterable[str],
        tasks: Iterable[str] = (),
        name: str | None = None,
        expires: float | None = None,
    ) -> str:
        """Create a token and return its text, which is not stored.

        It is valid until `expires` or until it is revoked.
        """
        wanted, allowed = list(dict.fromkeys(scopes)), list(dict.fromkeys(tasks))
        for scope in wanted:
            if scope not in SCOPES:
                raise InputError(f"{brief(scope)} is not a scope; {nearest(scope, SCOPES)}")
        if not wanted:
            raise InputError(f"a token needs a scope: {', '.join(SCOPES)}")
        for task in allowed:
            try:
                TypeAdapter(TaskName).validate_python(task)
            except ValidationError:
                raise InputError(
                    f"{brief(task)} cannot be the name of a task: it takes up to 100 letters, digits, '.', '_' and '-'"
                ) from None
        if name is not None and not name.isprintable():  # it is printed in a line of the list, and stored as JSON
            raise InputError(f"the name of a token must be printable, got {brief(name)}")
        if expires is not None and not time.time() < expires < math.inf:
            raise InputError("the expiry of a token must be in the future")
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        token = Token(
            id=identity,
            name=name,
            digest=_digest(secret),
            scopes=[scope for scope in SCOPES if scope in wanted],
            tasks=allowed or None,
            created=time.time(),
            revoked=None,
            expires=expires,
        )
        with self._locked():
            self._write([*self.listed(), token])
        return f"{PREFIX}_{identity}_{secret}"

    def replace(self, tokens: list[Token]) -> None:
        """Replace all tokens."""
        with self._locked():
            self._write(tokens)

    def revoke(self, identity: str) -> Token:
        """Revoke a token by its id or its full text, and return it."""
        if identity.startswith(f"{PREFIX}_"):
            identity = identity.split("_")[1]
        with self._locked():
            tokens = {token.id: token for token in self.listed()}
            if identity not in tokens:
                raise InputError(f"there is no token {brief(identity)} in {self.name}; {nearest(identity, tokens)}")
            if tokens[identity].revoked is None:
                tokens[identity] = tokens[identity].model_copy(update={"revoked": time.time()})
                self._write(list(tokens.values()))
        return tokens[identity]

    @property
    def open(self) -> bool:
        """True if there are no tokens, so that everybody may do everything."""
        return self.trouble is None and self._stamp is None

    def warnings(self) -> Iterator[ReadinessWarning]:
        """Yield a warning if the file cannot be read."""
        if (trouble := self.trouble) is not None:
            yield ReadinessWarning(trouble)

    @property
    def trouble(self) -> str | None:
        """Reason why the file cannot be read now, or None."""
        self._look()
        return self._trouble

    def check(self, text: str | None) -> Principal:
        """Return the principal of a token; raise UnauthorizedError if it is not valid.

        Raise UnavailableError if no tokens could be read.
        """
        self._look()
        if self._stamp is None:
            if self._trouble is None:
                return ANYBODY
            raise UnavailableError(self._trouble)
        if text is None:
            raise UnauthorizedError("a token is needed: Authorization: Bearer TOKEN")
        prefix, _, remainder = text.partition("_")
        identity, _, secret = remainder.partition("_")
        # An unknown id takes as long as a wrong secret, so that nobody can find out which ids exist.
        token = self._valid.get(identity)
        is_secret = hmac.compare_digest(_NOBODY if token is None else token.digest, _digest(secret))
        if not is_secret or token is None or prefix != PREFIX:
            raise UnauthorizedError("the token is unknown or was revoked")
        if token.expires is not None and time.time() >= token.expires:
            when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(token.expires))
            raise UnauthorizedError(f"the token expired at {when} UTC: create another with `onebit token create`")
        return token.principal

    def _look(self) -> None:
        """Read the file if it has changed or could not be read before."""
        try:
            status = self.path.stat()
            # Owner and mode decide whether the file can be read; when they change, so does ctime.
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)
            if stamp != self._stamp:
                if not stat.S_ISREG(status.st_mode):  # reading a pipe would block
                    raise InputError(f"{self.path} is not a file")
                self._accept(self.listed(), stamp)
        except FileNotFoundError:
            # Losing the file must not open the service to everybody.
            was_open = self._stamp is None and self._trouble is None
            if not was_open or (self._closed is not None and self._closed.exists()):
                self._accept((), None)
                self._fail("the token file is missing, so all requests are refused", self.name)
        except OSError as error:
            self._fail(self._describe_failure(f"cannot be accessed ({error.strerror})"), self.name)
        except OnebitError as error:
            self._fail(self._describe_failure("is damaged or cannot be read"), str(error))
        else:
            self._recover()
            if self._closed is not None:
                self._mark(self._closed)

    def _accept(self, tokens: Iterable[Token], stamp: tuple[int, ...] | None) -> None:
        """Make these the valid tokens."""
        self._stamp, self._valid = stamp, {token.id: token for token in tokens if token.revoked is None}

    def _describe_failure(self, problem: str) -> str:
        consequence = (
            "all requests are refused until it is repaired"
            if self._stamp is None
            else "the tokens that were read last stay valid, and later revocations are not seen"
        )
        return f"the token file {problem}: {consequence}"

    def _fail(self, trouble: str, reason: str) -> None:
        """Record a problem with the tokens; log it with the reason at most once a minute, however many requests arrive."""
        self._trouble, now = trouble, time.monotonic()
        if now >= self._logged + LOGGED_S:
            self._logged = now
            LOG.error(f"{trouble} ({reason})", extra={"event": "tokens-unread"})

    def _recover(self) -> None:
        if self._logged > -math.inf:
            LOG.info("the tokens can be read again", extra={"event": "tokens-read"})
        self._trouble, self._logged = None, -math.inf

    def _mark(self, closed: Path) -> None:
        """Create the marker file; if that fails, the next request tries again."""
        with suppress(OSError):
            closed.touch(mode=0o600)
            match_folder_owner(closed, closed.parent)
            self._closed = None

    def listed(self) -> list[Token]:
        """Return all tokens, including revoked ones."""
        try:
            return _File.model_validate_json(self.path.read_bytes()).tokens
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            location = ".".join(str(part) for part in first["loc"])
            raise InputError(
                f"{self.path} is not a token file, or is damaged: {location or 'it'}: {first['msg']}"
            ) from None

    def _write(self, tokens: list[Token]) -> None:
        previous_mask = os.umask(0o077)  # the file is readable by its owner only
        try:
            content = {"format": 1, "tokens": [token.model_dump() for token in tokens]}
            write_atomically(self.path, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")
        finally:
            os.umask(previous_mask)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Exclude other writers by a lock file, since the token file itself is replaced."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
            match_folder_owner(lock, self.path.parent)
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror or error}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
