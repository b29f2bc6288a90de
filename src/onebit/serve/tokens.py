"""Who may use the service: random tokens, of which only a hash is kept, in one JSON file.

A token is `onebit_ID_SECRET`. The file may be changed by several processes while a service runs: each change is whole or not there,
and the service looks at the file at every request, so that a token that is revoked is refused from then on.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from onebit.errors import OnebitError, nearest
from onebit.serve.refusals import Unauthorized, Unavailable
from onebit.serve.shapes import TaskName
from onebit.storage import write_atomically

Scope = Literal["decide", "feedback", "read", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
PREFIX = "onebit"
_NOBODY = hashlib.sha256(b"").hexdigest()  # what the secret of an unknown token is compared with


class Token(BaseModel):
    """What is kept of a token: everything but its secret."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str | None
    digest: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    scopes: list[Scope]
    tasks: list[str] | None
    created: float
    revoked: float | None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    tokens: list[Token]


@dataclass(frozen=True)
class Principal:
    """Who asks, and what they may do."""

    id: str | None  # None: anybody, where the service has no tokens
    scopes: frozenset[str]
    tasks: frozenset[str] | None  # None: all of them

    def sees(self, task: str) -> bool:
        """Whether this task is any of their business."""
        return self.tasks is None or task in self.tasks


ANYBODY = Principal(None, frozenset(SCOPES), None)


class Tokens:
    """The tokens of a service. Where there is no file, the service is open; once there was one, it never opens again.

    `closed` is a file that says so when the process has ended, and its tokens are lost with theirs.
    """

    def __init__(self, path: Path, closed: Path | None = None) -> None:
        self.path = path
        self._closed = closed
        self._stamp: tuple[int, ...] | None = None  # of the file that was read
        self._known: dict[str, tuple[str, Principal]] = {}
        self._trouble: str | None = None

    def create(self, scopes: Iterable[str], tasks: Iterable[str] = (), name: str | None = None) -> str:
        """A new token, in the only moment in which its text is known."""
        wanted, allowed = list(dict.fromkeys(scopes)), list(dict.fromkeys(tasks))
        for scope in wanted:
            if scope not in SCOPES:
                raise OnebitError(f"{scope!r} is not a scope; {nearest(scope, SCOPES)}")
        if not wanted:
            raise OnebitError(f"a token needs a scope: {', '.join(SCOPES)}")
        for task in allowed:
            _check_name(task)
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        token = Token(
            id=identity,
            name=name,
            digest=_digest(secret),
            scopes=[scope for scope in SCOPES if scope in wanted],
            tasks=allowed or None,
            created=time.time(),
            revoked=None,
        )
        with self._locked():
            self._write([*self.listed(), token])
        return f"{PREFIX}_{identity}_{secret}"

    def listed(self) -> list[Token]:
        """All tokens, the revoked ones too."""
        return self._read()

    def revoke(self, identity: str) -> Token:
        """Let a token be good for nothing, from now on; it is named by its id, or by its whole text."""
        if identity.startswith(f"{PREFIX}_"):
            identity = identity.split("_")[1]
        with self._locked():
            tokens = {token.id: token for token in self.listed()}
            if identity not in tokens:
                raise OnebitError(f"there is no token {identity!r} in {self.path}; {nearest(identity, tokens)}")
            if tokens[identity].revoked is None:
                tokens[identity] = tokens[identity].model_copy(update={"revoked": time.time()})
                self._write(list(tokens.values()))
        return tokens[identity]

    @property
    def open(self) -> bool:
        """Whether everybody may do everything."""
        self._look()
        return self._stamp is None and self._trouble is None

    def check(self, text: str | None) -> Principal:
        """Who shows this token; refused where it is not a good one."""
        self._look()
        if self._trouble is not None:
            raise Unavailable(self._trouble)
        if self._stamp is None:
            return ANYBODY
        if text is None:
            raise Unauthorized("a token is needed: Authorization: Bearer TOKEN")
        prefix, _, rest = text.partition("_")
        identity, _, secret = rest.partition("_")
        # What is not known takes the same time as what is wrong, so that nobody learns which ids there are.
        digest, principal = self._known.get(identity, (_NOBODY, None))
        same = hmac.compare_digest(digest, _digest(secret))
        if not same or principal is None or prefix != PREFIX:
            raise Unauthorized("the token is not known, or was revoked")
        return principal

    def _look(self) -> None:
        """Read the file where it has changed."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            # It must not be enough to lose the file to let everybody in.
            if self._stamp is not None or (self._closed is not None and self._closed.exists()):
                self._stamp, self._trouble = (), "the file of the tokens is gone, and nobody is let in without it"
            return
        except OSError as error:
            self._stamp, self._trouble = (), f"the file of the tokens cannot be read: {error.strerror}"
            return
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        if stamp == self._stamp:
            return
        try:
            tokens = self._read()
        except OnebitError:
            self._trouble = (
                "the file of the tokens is damaged or cannot be read, and nobody is let in until it is repaired"
            )
        else:
            self._known = {token.id: (token.digest, _principal(token)) for token in tokens if token.revoked is None}
            self._trouble = None
            if self._stamp is None and self._closed is not None:
                with suppress(OSError):
                    self._closed.touch(mode=0o600)
        self._stamp = stamp

    def _read(self) -> list[Token]:
        try:
            return _File.model_validate_json(self.path.read_bytes()).tokens
        except FileNotFoundError:
            return []
        except OSError as error:
            raise OnebitError(f"{self.path} cannot be read: {error.strerror or error}") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise OnebitError(
                f"{self.path} is not a file of tokens, or damaged: {place or 'it'}: {first['msg']}"
            ) from None

    def _write(self, tokens: list[Token]) -> None:
        others = os.umask(0o077)  # the file is nobody else's
        try:
            write_atomically(self.path, _File(tokens=tokens).model_dump_json(indent=2).encode() + b"\n")
        finally:
            os.umask(others)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time; the file itself is replaced, so that the lock is another."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise OnebitError(f"{self.path} cannot be written: {error.strerror or error}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _principal(token: Token) -> Principal:
    scopes = frozenset(SCOPES) if "admin" in token.scopes else frozenset(token.scopes)
    return Principal(token.id, scopes, None if token.tasks is None else frozenset(token.tasks))


def _check_name(task: str) -> None:
    try:
        TypeAdapter(TaskName).validate_python(task)
    except ValidationError:
        raise OnebitError(
            f"{task!r} cannot be the name of a task: it takes up to 100 letters, digits, '.', '_' and '-'"
        ) from None
