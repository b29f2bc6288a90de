"""Tokens in the database: one list for all nodes, which check its version several times a second."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
from pydantic import ValidationError

from onebit.errors import InputError
from onebit.service.store.errors import as_input_errors
from onebit.service.store.postgres.schema import as_log_errors, connect, create_tables, public_address
from onebit.service.tokens import Token, Tokens

LEASE_S = 5.0  # how long tokens are trusted after they were read; then nobody is let in until they are read again


class TokenList(NamedTuple):
    """All tokens at a version of the list; `closed` is True if there have ever been any."""

    version: int
    closed: bool
    tokens: list[Token]


def read_tokens(connection: psycopg.Connection) -> list[Token]:
    rows = connection.execute("SELECT content FROM tokens")
    try:
        tokens = [Token.model_validate_json(content) for (content,) in rows]
        return sorted(tokens, key=lambda token: (token.created, token.id))
    except ValidationError as error:
        first, *_ = error.errors(include_url=False)
        raise InputError(f"the tokens in the database are damaged: {first['msg']}") from None


class PostgresTokens(Tokens):
    """The tokens of a database.

    They are trusted for a few seconds after each reading. If they cannot be read again, nobody is let in, since a token may have been
    revoked.
    """

    def __init__(self, address: str) -> None:
        super().__init__(Path())
        self._address = address
        self._latest: TokenList | None = None  # written by `refresh`, on another thread
        self._read_time = -math.inf
        self._changing: psycopg.Connection | None = None

    @property
    def name(self) -> str:
        return public_address(self._address)

    def load(self) -> None:
        """Read the tokens now."""
        with as_input_errors(self.name):
            create_tables(self._address)
            with connect(self._address) as connection, as_log_errors():
                self.refresh(connection)

    def refresh(self, connection: psycopg.Connection) -> None:
        """Read the tokens if they have changed; another thread may check tokens meanwhile."""
        start = time.monotonic()  # taken before the query, as this process may be suspended during it
        [(version, closed)] = connection.execute("SELECT tokens, closed FROM head").fetchall()
        if self._latest is None or self._latest.version != version:
            self._latest = TokenList(version, closed, read_tokens(connection))
        self._read_time = start

    def _look(self) -> None:
        latest = self._latest
        if latest is None or time.monotonic() - self._read_time > LEASE_S:
            self._accept((), None)
            self._fail("the tokens cannot be read now, and nobody is let in without them", self.name)
            return
        if self._stamp != (latest.version,):
            self._accept(latest.tokens, (latest.version,) if latest.closed else None)
        self._recover()

    def listed(self) -> list[Token]:
        if self._changing is not None:
            return read_tokens(self._changing)
        with self._locked():
            return self.listed()

    def _write(self, tokens: list[Token]) -> None:
        assert self._changing is not None
        self._changing.execute("DELETE FROM tokens")
        with self._changing.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO tokens VALUES (%s, %s)", [(token.id, token.model_dump_json()) for token in tokens]
            )
        self._changing.execute("UPDATE head SET tokens = tokens + 1, closed = true")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Open a transaction in which nobody else can change the tokens."""
        with as_input_errors(self.name):
            create_tables(self._address)
            with connect(self._address) as connection, as_log_errors(), connection.transaction():
                connection.execute("SELECT 1 FROM head FOR UPDATE")
                self._changing = connection
                try:
                    yield
                finally:
                    self._changing = None
