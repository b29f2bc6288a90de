"""What waits for the webhook, in the database: of all nodes, the one that took it last may change it."""

from __future__ import annotations

import secrets

from onebit.serve.log.postgres.schema import connected, in_our_words
from onebit.serve.webhook import Keep, TakenOverError


class PostgresOutbox:
    """One row of the database."""

    def __init__(self, address: str) -> None:
        self._address = address

    def taken(self) -> tuple[bytes | None, Keep]:
        """Take it from whichever node had it."""
        sender = secrets.token_hex(16)
        with connected(self._address) as connection, in_our_words():
            row = connection.execute("UPDATE outbox SET sender = %s RETURNING content", (sender,)).fetchone()
        assert row is not None

        def keep(changed: bytes) -> None:
            with connected(self._address) as connection, in_our_words():
                query = "UPDATE outbox SET content = %s WHERE sender = %s"
                if connection.execute(query, (changed.decode(), sender)).rowcount == 0:
                    raise TakenOverError("another node sends to the webhook now")

        return None if row[0] is None else row[0].encode(), keep
