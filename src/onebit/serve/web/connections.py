"""The open connections, and what one may take: the bounds that `guard` keeps."""

from __future__ import annotations

from typing import Protocol

from onebit.serve.errors import TooLargeError
from onebit.serve.settings import Settings

KEEP_ALIVE_S = 65  # longer than proxies keep a connection that is not used, so that they end it, and not we
LARGEST_HEAD = 64 * 2**10  # bytes of the line and the headers of a request
MOST_IN_A_ROW = 16  # requests that come before those before them are answered; hardly anybody sends two


class HeadTooLargeError(TooLargeError):
    """More headers than one request may have."""

    status = 431


class Connection(Protocol):
    """One that is open."""

    def note_answer(self) -> None:
        """Note that the application is done with a request."""


class Connections:
    """The open connections by the address of the other side, and their bounds."""

    def __init__(self, settings: Settings) -> None:
        self.most = settings.max_connections
        self.patience_s = settings.request_timeout_s
        self.most_bytes = 2 * settings.max_body + LARGEST_HEAD  # a body in small chunks is larger on the way
        self.open: dict[object, Connection] = {}
        self.refused = 0  # since the start

    def note_answer(self, client: object) -> None:
        """Note that the application is done with a request of a client, as the ASGI scope names it."""
        if (connection := self.open.get(client)) is not None:
            connection.note_answer()
