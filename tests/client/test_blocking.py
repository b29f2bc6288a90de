"""The blocking client is written by a tool from the asynchronous one."""

from __future__ import annotations

import pytest
from tools.clients import ASYNCHRONOUS, BLOCKING, blocking

SOURCE = ASYNCHRONOUS.read_text()


def test_the_blocking_client_is_what_the_tool_writes() -> None:
    assert BLOCKING.read_text() == blocking(SOURCE), "run python tools/clients.py"


def test_a_call_that_is_added_is_there_in_both() -> None:
    added = "    async def ping(self) -> Version:\n        return await self.version()\n"
    assert "    def ping(self) -> Version:\n        return self.version()\n" in blocking(f"{SOURCE}\n{added}")


def test_what_the_tool_cannot_change_is_refused() -> None:
    with pytest.raises(ValueError, match="would still say 'async': add what it should say"):
        blocking(f"{SOURCE}\n    async with nothing:\n        pass\n")
    with pytest.raises(ValueError, match="does not say '__aenter__' any more: change CHANGES"):
        blocking(SOURCE.replace("__aenter__", "__enter__"))
