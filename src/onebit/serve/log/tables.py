"""The tables of a log, whichever store keeps them."""

from __future__ import annotations

NAMES = ("changes", "decisions", "feedback", "revisions")
TIME = {"changes": 1, "decisions": 2, "feedback": 2, "revisions": 2}  # the place of the time in a row, without its seq
COLUMNS = {"changes": 6, "decisions": 20, "feedback": 12, "revisions": 9}
LATEST = 253_402_300_800.0  # the year 10,000, in seconds since 1970: no row has a later time
