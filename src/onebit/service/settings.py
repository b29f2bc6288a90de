"""The settings of `onebit serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TOKENS = "tokens.json"  # the file of the tokens in the data folder, where none is named


@dataclass(frozen=True)
class Settings:
    """How a service runs. Every field is an option of `onebit serve` and an environment variable."""

    data: Path
    log: str | None = (
        None  # the address of a database that has the log, the snapshots and the tokens, in the place of the folder
    )
    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    max_body: int = 16 * 2**20  # bytes of one request
    max_batch: int = 10_000  # decisions or feedbacks in one request
    max_values: int = 10_000  # names of a dict, or words of a text
    max_connections: int = 2_000  # at once
    cors_origin: tuple[str, ...] = ()  # whose pages may use the service, by scripts that have a token
    snapshot_every: int = 10_000  # events of a task
    keep_snapshots: int = 3  # of each task
    request_timeout_s: float = 30.0  # for a request to arrive whole
    max_tasks: int = 1000  # at a time
    max_tasks_per_token: int = 100  # at a time, of those that were created with it
    max_task_memory: int = 2**30  # bytes of the learner of a task, in its two copies
    drain_s: float = 10.0  # for requests under way when the service is told to end
    log_format: str | None = None  # text where people look on, or else json
    rule: tuple[str, ...] = ()  # of the user's own, file.py:NAME

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
