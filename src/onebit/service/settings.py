"""The settings of `onebit serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TOKENS = "tokens.json"  # default name of the token file in the data folder


@dataclass(frozen=True)
class Settings:
    """How a service runs. Every field is an option of `onebit serve` and an environment variable."""

    data: Path
    log: str | None = None  # address of a database for the log, the snapshots and the tokens, instead of the folder
    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    max_body: int = 16 * 2**20  # bytes of one request body
    max_batch: int = 10_000  # decisions or feedbacks in one request
    max_values: int = 10_000  # names of a dict, or words of a text
    max_connections: int = 2_000  # at the same time
    cors_origin: tuple[str, ...] = ()  # sites whose scripts may use the service, with a token
    snapshot_every: int = 10_000  # events of a task
    keep_snapshots: int = 3  # of each task
    request_timeout_s: float = 30.0  # for a request to arrive completely
    max_tasks: int = 1000  # at the same time
    max_tasks_per_token: int = 100  # at the same time, created with one token
    max_task_memory: int = 2**30  # bytes of a task's learner, both copies together
    drain_s: float = 10.0  # for requests in progress at shutdown
    log_format: str | None = None  # by default text in a terminal, json elsewhere
    rule: tuple[str, ...] = ()  # the user's own rules, as file.py:NAME

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
