"""Which nodes may share a log: those that write the same rows, and compute the same of them."""

from __future__ import annotations

from typing import NamedTuple

from onebit.learner.model_file import platform_info

PROTOCOL = 1  # of what nodes write and how they follow it; another where older nodes would not understand it


class Fence(NamedTuple):
    """What all nodes of a log have in common."""

    protocol: int
    cpu: str

    @classmethod
    def of_this(cls) -> Fence:
        """That of this node."""
        return cls(PROTOCOL, platform_info()["cpu"])

    def __str__(self) -> str:
        """For people."""
        return f"protocol {self.protocol} on {self.cpu}"
