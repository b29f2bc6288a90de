"""The lease of the leader: the one node that writes snapshots, records silence and trains, for all nodes of a log.

A lease ends by itself unless it is renewed, so a node that hangs loses it, and another node takes over. Whatever the leader writes
names its lease, which the log compares under the ordering lock: a node that comes back finds out there that it is the leader no more.
"""

from __future__ import annotations

import logging
import math
import secrets
import time

import psycopg

LEASE_S = 5.0  # another node takes over so long after the leader was last heard of
RENEW_S = 1.0
LOG = logging.getLogger("onebit.service")
_NOW = "extract(epoch FROM clock_timestamp())::float8"
# An end that is further away than any lease was written before the clock of the database was set back.
_TAKE = (
    f"UPDATE leader SET holder = %(holder)s, until = {_NOW} + %(lease_s)s "
    f"WHERE holder = %(holder)s OR until < {_NOW} OR until > {_NOW} + %(lease_s)s"
)


class Lease:
    """The claim of this node to the lease. `look` and `release` are called on one thread; the rest is read on any."""

    def __init__(self) -> None:
        self._holder = secrets.token_hex(8)
        self._until = -math.inf  # by the monotonic clock, which goes on while this process stands still

    @property
    def holder(self) -> str | None:
        """The name of the lease while this node has it."""
        return self._holder if time.monotonic() < self._until else None

    def look(self, connection: psycopg.Connection) -> None:
        """Renew the lease where it is time, or take it where nobody has it."""
        began, had = time.monotonic(), self.holder is not None
        if had and self._until - began > LEASE_S - RENEW_S:
            return
        if not had:  # rows that were handed over under a lease that has ended are not written under the next one
            self._holder = secrets.token_hex(8)
        taken = connection.execute(_TAKE, {"holder": self._holder, "lease_s": LEASE_S}).rowcount == 1
        self._until = began + LEASE_S if taken else -math.inf
        if taken != had:
            what = "keeps" if taken else "no longer keeps"
            LOG.info(f"this node {what} the log for all nodes", extra={"event": "leader" if taken else "leader-lost"})

    def release(self, connection: psycopg.Connection) -> None:
        """Let another node take over at once."""
        self._until = -math.inf
        connection.execute("UPDATE leader SET until = 0 WHERE holder = %s", (self._holder,))
