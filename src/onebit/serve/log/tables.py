"""The tables of a log, whichever store keeps them."""

from __future__ import annotations

NAMES = ("changes", "decisions", "feedback", "revisions")
COLUMNS = {"changes": 6, "decisions": 20, "feedback": 12, "revisions": 9}
LATEST = 253_402_300_800.0  # the year 10,000, in seconds since 1970: no row has a later time
