"""The settings of `onebit serve`, with their help on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

TOKENS = "tokens.json"  # default name of the token file in the data folder


class Option(NamedTuple):
    """How a setting is shown on the command line."""

    metavar: str
    help: str


@dataclass(frozen=True)
class Settings:
    """How a service runs. Every field is an option of `onebit serve` and an environment variable."""

    data: Annotated[Path, Option("DIR", "folder for the log, the snapshots and the tokens, created if missing")]
    log: Annotated[str | None, Option("ADDRESS", "PostgreSQL database instead of DIR, which nodes may share")] = None
    host: Annotated[str, Option("NAME", "name or address to listen on")] = "127.0.0.1"
    port: Annotated[int, Option("PORT", "port to listen on; 0 picks a free one")] = 8000
    token_file: Annotated[Path | None, Option("FILE", "token file; by default tokens.json in DIR")] = None
    max_body: Annotated[int, Option("BYTES", "largest body of a request")] = 16 * 2**20
    max_batch: Annotated[int, Option("N", "largest number of decisions or feedbacks in one request")] = 10_000
    max_values: Annotated[int, Option("N", "largest number of names in a dict x, or of words in a text x")] = 10_000
    max_connections: Annotated[int, Option("N", "largest number of connections at once")] = 2_000
    cors_origin: Annotated[tuple[str, ...], Option("ORIGIN", "site whose pages may use the service; repeatable")] = ()
    snapshot_every: Annotated[int, Option("N", "events of a task between snapshots")] = 10_000
    keep_snapshots: Annotated[int, Option("N", "newest snapshots to keep of each task, besides a few older ones")] = 3
    request_timeout_s: Annotated[float, Option("S", "seconds within which a request must arrive")] = 30.0
    max_tasks: Annotated[int, Option("N", "largest number of tasks at a time")] = 1000
    max_tasks_per_token: Annotated[int, Option("N", "largest number of tasks at a time created with one token")] = 100
    max_task_memory: Annotated[int, Option("BYTES", "largest memory of a new learner, both copies together")] = 2**30
    drain_s: Annotated[float, Option("S", "seconds to finish requests at shutdown")] = 10.0
    log_format: Annotated[str | None, Option("FORM", "json, or text for people (default in a terminal)")] = None
    rule: Annotated[tuple[str, ...], Option("FILE.py:NAME", "rule of your own that tasks may use; repeatable")] = ()

    @property
    def where(self) -> Path | str:
        """Location of the log: a folder, or the address of a database."""
        return self.data if self.log is None else self.log

    @property
    def closed(self) -> Path:
        """Path of the marker file that says that there have been tokens."""
        return self.data / "closed"

    @property
    def tokens(self) -> Path:
        """Path of the token file."""
        return self.token_file or self.data / TOKENS
