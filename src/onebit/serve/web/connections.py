"""How many connections there are, and how many there may be."""

from __future__ import annotations


class Connections:
    """The count of open connections, which the protocol keeps."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.open = 0
        self.refused = 0  # since the start
