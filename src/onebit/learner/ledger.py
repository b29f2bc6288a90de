"""A bounded record of learnt decisions: nothing is learnt twice, and ids too old to check are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onebit.contract.validation import ID_LIMIT
from onebit.errors import InputError, brief

LEARNT = "has been learnt already"
NO_LOG = "a learner keeps no log, and cannot take back what it has learnt; `onebit serve` keeps one, and its feedback can be revised"
COUNTS = ("moment", "watermark", "first_gap", "forgotten")  # attributes saved in files, besides the ids
LIMIT = 100_000  # ids remembered individually before the older half is forgotten


class Ledger:
    """The ids of learnt decisions, and the next free number.

    Numbers: all below the watermark count as learnt, and those above it are remembered individually. If feedback comes in order
    nothing is remembered at all; if some never comes, the watermark steps over the gap once `LIMIT` later ones have come.

    Strings have no order, so each is remembered with the moment at which it was learnt (moments are counted in feedbacks).
    Once the older half is forgotten, decisions made before that are refused, since they may be among the forgotten.

    >>> ledger = Ledger()
    >>> ledger.record(0); ledger.record(2)
    >>> ledger.watermark, sorted(ledger.above)
    (1, [2])
    >>> ledger.refuse_learnt(2, moment=0)
    Traceback (most recent call last):
        ...
    onebit.errors.InputError: decision 2 has been learnt already: a learner keeps no log, and cannot ...
    """

    def __init__(self) -> None:
        self.next_id = 0  # for decisions without an id
        self.moment = 0  # feedbacks recorded so far
        self.watermark = 0
        self.first_gap = 2**63  # all numbers below this and the watermark were really learnt
        self.above: set[int] = set()
        self.strings: dict[str, int] = {}  # in the order of learning
        self.forgotten = 0  # strings learnt up to this moment may have been forgotten
        self._stepped = False  # whether `record_all` stepped over a gap and expects more

    def next_ids(self, count: int) -> range:
        """Return the next free numbers without using them up; raise InputError if too few are left."""
        if self.next_id + count > ID_LIMIT:
            raise InputError(
                f"decisions are numbered from {self.next_id} on, and there are no {count} numbers left: give ids"
            )
        return range(self.next_id, self.next_id + count)

    def _number_after(self, highest: int) -> None:
        """Make `next_id` larger than a number that was learnt."""
        if self.next_id <= highest < ID_LIMIT - 1:
            self.next_id = highest + 1

    def refuse_learnt(self, identity: int | str, moment: int) -> None:
        """Raise InputError if an id was learnt, or was decided too long ago (at `moment`) to tell."""
        if type(identity) is int and identity >= self.watermark and identity not in self.above:
            return  # the common case
        if identity in self.strings or identity in self.above:
            raise InputError(f"decision {brief(identity)} {LEARNT}: {NO_LOG}")
        if isinstance(identity, int) and identity < self.watermark:
            why = LEARNT if identity < self.first_gap else f"{LEARNT}, or is too old"
            raise InputError(
                f"decision {identity} {why}: from {self.watermark} on decisions can still be learnt; {NO_LOG}"
            )
        if isinstance(identity, str) and moment < self.forgotten:
            raise InputError(
                f"decision {brief(identity)} is too old: it was made after {moment} feedbacks, "
                f"and only those made after {self.forgotten} or more can still be learnt"
            )

    def knows_none(self, identities: Sequence[int | str]) -> bool:
        """Return True if all ids are numbers that can still be learnt.

        If False, call `refuse_learnt` for each to find out why.
        """
        if type(identities) is not range and not set(map(type, identities)) <= {int}:
            return False
        low: Any = min(identities, default=self.watermark)
        return low >= self.watermark and self.above.isdisjoint(identities)

    def record(self, identity: int | str) -> None:
        """Record that a decision has been learnt."""
        self.moment += 1
        if type(identity) is int and identity >= self.next_id:
            self._number_after(identity)
        if identity == self.watermark and not self.above:
            self.watermark += 1
            return
        if isinstance(identity, str):
            self.strings[identity] = self.moment
            if len(self.strings) > LIMIT:
                for old in list(self.strings)[: LIMIT // 2]:
                    self.forgotten = self.strings.pop(old)
            return
        self.above.add(identity)
        self._settle()

    def record_all(self, identities: Sequence[int | str], more: bool = False) -> None:
        """Record that these decisions, none of them learnt before, have been learnt; a range is in order.

        `more` says that further, larger numbers will follow. The final state does not depend on how the numbers are split into calls.
        """
        numbers: Any = identities
        stepped = self._stepped
        in_turn = range(self.watermark, self.watermark + len(numbers))
        if not self.above and (numbers == in_turn if type(numbers) is range else list(numbers) == list(in_turn)):
            self.watermark = in_turn.stop
        elif type(numbers) is range and len(numbers) > LIMIT:  # too many to remember individually
            self.first_gap = min(self.first_gap, self.watermark)
            self.watermark = numbers.stop
            self.above = {kept for kept in self.above if kept >= self.watermark}
        elif set(map(type, numbers)) <= {int}:
            self.above.update(numbers)
            stepped = self._settle() or stepped
        else:
            for identity in identities:
                self.record(identity)
            return
        if stepped and not more and len(self.above) >= -(-LIMIT // 2):  # as if all had come in one call
            self._step_over()
        self._stepped = stepped and more
        self.moment += len(numbers)
        self._number_after(numbers.stop - 1 if type(numbers) is range else max(numbers, default=-1))

    def _settle(self) -> bool:
        """Raise the watermark past numbers learnt without a gap.

        Return True if it also stepped over gaps to bound memory.
        """
        while self.watermark in self.above:
            self.above.remove(self.watermark)
            self.watermark += 1
        if len(self.above) > LIMIT:
            self._step_over()
            return True
        return False

    def _step_over(self) -> None:
        """Keep only the highest numbers, and count all below them as learnt."""
        self.first_gap = min(self.first_gap, self.watermark)
        self.watermark = sorted(self.above)[-LIMIT // 2]
        self.above = {kept for kept in self.above if kept >= self.watermark}
        self._settle()


class CountingLedger(Ledger):
    """A ledger that only counts, and so accepts every id: its caller ensures that nothing is learnt twice."""

    def __init__(self, moment: int, next_id: int) -> None:
        super().__init__()
        self.moment, self.next_id = moment, next_id

    def knows_none(self, identities: Sequence[int | str]) -> bool:
        return True

    def record(self, identity: int | str) -> None:
        self.record_all((identity,))

    def record_all(self, identities: Sequence[int | str], more: bool = False) -> None:
        self.moment += len(identities)
        self._number_after(max((identity for identity in identities if isinstance(identity, int)), default=-1))
