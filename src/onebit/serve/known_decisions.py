"""What is known here of the decisions of a task: of the last ones from memory, and of all others from the log."""

from __future__ import annotations

from onebit.serve.clock import Clock
from onebit.serve.judging import looked_up, refuse_forgotten
from onebit.serve.log.reading import Reader
from onebit.serve.log.recent_rows import TIME
from onebit.serve.made import Made, MadeDecisions, made_again
from onebit.serve.recent import Entry, Recent
from onebit.serve.served_task import ServedTask

SEQ, ID, MODE = 0, 2, 4  # in a row of a decision


class KnownDecisions:
    """The decisions of one task that is open in this process. Used by one thread at a time."""

    def __init__(self, served: ServedTask, reader: Reader, clock: Clock) -> None:
        self._served = served
        self._reader = reader
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Have nothing in memory."""
        self._recent, self._made = Recent(), MadeDecisions()

    def add(self, made: Made) -> None:
        """Remember a decision that was made now."""
        row = made.row
        self._made.hold(row[ID], made)
        self._recent.add(self._served.info.number, row[ID], Entry(row[SEQ], row[TIME], row[MODE]))

    def __contains__(self, identity: str) -> bool:
        """Whether a decision is in memory."""
        return identity in self._made

    def entry(self, identity: str) -> Entry | None:
        """What must be known of a decision when its feedback comes; None where there is none."""
        info = self._served.info
        entry = self._recent.get(info.number, identity)
        if entry is None:
            entry = looked_up(info.expected, [identity], self._reader, self._clock).get(identity)
            if entry is not None:
                self._recent.add(info.number, identity, entry)
        return entry

    def find(self, identity: str) -> Made | None:
        """A decision; None where there is none. Refused where it was forgotten."""
        info, made = self._served.info, self._made.get(identity)
        if made is None and self._reader.known(info, [identity]):
            logged = self._reader.decision(info, identity)
            assert logged is not None
            made = made_again(info, logged, self._served.follower.replicas.resting.runtime.identity)
            self._made.hold(identity, made)
        if made is None:
            refuse_forgotten(self._reader, info, [identity])
        return made

    def made(self, identity: str) -> Made:
        """A decision that has an entry, and so is there."""
        made = self.find(identity)
        assert made is not None, "a decision that has an entry is in the log"
        return made
