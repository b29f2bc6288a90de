"""Tokens in the database: one list for all nodes, which look at its version several times a second."""

from __future__ import annotations

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

LEASE_S = 5.0  # for which tokens that were looked at are good; a node that hears nothing lets nobody in after that


class TokenList(NamedTuple):
    """All tokens, at a version of the list; and whether there have ever been any."""

    version: int
    closed: bool
    tokens: list[Token]


class TokenTable:
    """What a node knows of the tokens. Looked at on one thread, and read on another."""

    def __init__(self) -> None:
        self.known: TokenList | None = None
        self.looked = time.monotonic()

    def look(self, connection: psycopg.Connection) -> None:
        """Read the tokens where they have changed."""
        began = time.monotonic()  # this process may stand still before it has the answer
        row = connection.execute("SELECT tokens, closed FROM head").fetchone()
        assert row is not None
        if self.known is None or self.known.version != row[0]:
            self.known = TokenList(row[0], row[1], read_tokens(connection))
        self.looked = began


def read_tokens(connection: psycopg.Connection) -> list[Token]:
    rows = connection.execute("SELECT content FROM tokens")
    try:
        found = [Token.model_validate_json(content) for (content,) in rows]
        return sorted(found, key=lambda token: (token.created, token.id))
    except ValidationError as error:
        raise InputError(
            f"the tokens in the database are damaged: {error.errors(include_url=False)[0]['msg']}"
        ) from None


class PostgresTokens(Tokens):
    """The tokens of a database. What was read is good for a few seconds: without a new look nobody is let in, since a token may be revoked."""

    def __init__(self, address: str, table: TokenTable | None = None) -> None:
        super().__init__(Path())
        self._address = address
        self._table = table or TokenTable()
        self._taken: TokenList | None = None
        self._changing: psycopg.Connection | None = None

    def load(self) -> None:
        """Read them now."""
        with as_input_errors(self.name):
            create_tables(self._address)
            with connect(self._address) as connection, as_log_errors():
                self._table.look(connection)

    @property
    def name(self) -> str:
        return public_address(self._address)

    def _look(self) -> None:
        known = self._table.known
        if known is None or time.monotonic() - self._table.looked > LEASE_S:
            self._taken, self._known, self._stamp = None, {}, None
            self._fail("the tokens cannot be read now, and nobody is let in without them")
            return
        if known is not self._taken:
            self._taken, self._known = known, self._principals(known.tokens)
            self._stamp = (known.version,) if known.closed else None
        self._recover()

    def _read(self) -> list[Token]:
        if self._changing is not None:
            return read_tokens(self._changing)
        with self._locked():
            return self._read()

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
        """One transaction, in which nobody else changes them."""
        with as_input_errors(self.name):
            create_tables(self._address)
            with connect(self._address) as connection, as_log_errors(), connection.transaction():
                connection.execute("SELECT 1 FROM head FOR UPDATE")
                self._changing = connection
                try:
                    yield
                finally:
                    self._changing = None
