"""A bounded record of learnt decisions: nothing is learnt twice, and ids too old to check are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onebit.contract.validation import ID_LIMIT
from onebit.errors import InputError, brief

ALREADY_LEARNT = "has already been learnt"
NO_LOG = "a learner keeps no log and cannot unlearn; feedback to `onebit serve`, which keeps one, can be revised"
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
    >>> ledger.watermark, sorted(ledger.learnt_above)
    (1, [2])
    >>> ledger.refuse_learnt(2, moment=0)
    Traceback (most recent call last):
        ...
    onebit.errors.InputError: decision 2 has already been learnt: a learner keeps no log and cannot ...
    """

    def __init__(self) -> None:
        self.next_id = 0  # for decisions without an id
        self.moment = 0  # feedbacks recorded so far
        self.watermark = 0
        self.first_gap = 2**63  # all numbers below this and the watermark were really learnt
        self.learnt_above: set[int] = set()
        self.strings: dict[str, int] = {}  # in the order of learning
        self.forgotten = 0  # strings learnt up to this moment may have been forgotten
        self._has_skipped = False  # True if `record_all` skipped a gap and expects further ids

    def next_ids(self, count: int) -> range:
        """Return the next free numbers without using them up; raise InputError if too few are left."""
        if self.next_id + count > ID_LIMIT:
            raise InputError(
                f"{count} decisions cannot be numbered from {self.next_id} on, ids end at {ID_LIMIT - 1}: give ids"
            )
        return range(self.next_id, self.next_id + count)

    def _advance_next_id(self, highest: int) -> None:
        """Make `next_id` larger than the highest number learnt."""
        if self.next_id <= highest < ID_LIMIT - 1:
            self.next_id = highest + 1

    def refuse_learnt(self, identity: int | str, moment: int) -> None:
        """Raise InputError if an id was learnt, or if its decision (made at `moment`) is too old to tell."""
        if type(identity) is int and identity >= self.watermark and identity not in self.learnt_above:
            return  # the common case
        if identity in self.strings or identity in self.learnt_above:
            raise InputError(f"decision {brief(identity)} {ALREADY_LEARNT}: {NO_LOG}")
        if isinstance(identity, int) and identity < self.watermark:
            reason = ALREADY_LEARNT if identity < self.first_gap else f"{ALREADY_LEARNT}, or is too old"
            raise InputError(
                f"decision {identity} {reason}: only decisions from {self.watermark} on can still be learnt; {NO_LOG}"
            )
        if isinstance(identity, str) and moment < self.forgotten:
            raise InputError(
                f"decision {brief(identity)} is too old: it was made after {moment} feedbacks, "
                f"and only those made after {self.forgotten} or more can still be learnt"
            )

    def are_all_learnable(self, identities: Sequence[int | str]) -> bool:
        """Return True if all ids are numbers that can still be learnt.

        If False, call `refuse_learnt` for each to find out why.
        """
        if type(identities) is not range and not set(map(type, identities)) <= {int}:
            return False
        lowest: Any = min(identities, default=self.watermark)
        return lowest >= self.watermark and self.learnt_above.isdisjoint(identities)

    def record(self, identity: int | str) -> None:
        """Record a decision as learnt."""
        self.moment += 1
        if type(identity) is int and identity >= self.next_id:
            self._advance_next_id(identity)
        if identity == self.watermark and not self.learnt_above:
            self.watermark += 1
            return
        if isinstance(identity, str):
            self.strings[identity] = self.moment
            if len(self.strings) > LIMIT:
                for oldest in list(self.strings)[: LIMIT // 2]:
                    self.forgotten = self.strings.pop(oldest)
            return
        self.learnt_above.add(identity)
        self._raise_watermark()

    def record_all(self, identities: Sequence[int | str], more_follow: bool = False) -> None:
        """Record decisions as learnt, none of which was learnt before; the ids of a range are in order.

        `more_follow` says that further, larger numbers will follow. The final state does not depend on how the numbers are split into calls.
        """
        numbers: Any = identities
        has_skipped = self._has_skipped
        expected = range(self.watermark, self.watermark + len(numbers))
        if not self.learnt_above and (
            numbers == expected if type(numbers) is range else list(numbers) == list(expected)
        ):
            self.watermark = expected.stop
        elif type(numbers) is range and len(numbers) > LIMIT:  # too many to remember individually
            self.first_gap = min(self.first_gap, self.watermark)
            self.watermark = numbers.stop
            self.learnt_above = {number for number in self.learnt_above if number >= self.watermark}
        elif set(map(type, numbers)) <= {int}:
            self.learnt_above.update(numbers)
            has_skipped = self._raise_watermark() or has_skipped
        else:
            for identity in identities:
                self.record(identity)
            return
        if (
            has_skipped and not more_follow and len(self.learnt_above) >= -(-LIMIT // 2)
        ):  # as if all had come in one call
            self._skip_gaps()
        self._has_skipped = has_skipped and more_follow
        self.moment += len(numbers)
        self._advance_next_id(numbers.stop - 1 if type(numbers) is range else max(numbers, default=-1))

    def _raise_watermark(self) -> bool:
        """Raise the watermark past numbers learnt without a gap.

        Return True if it also stepped over gaps to bound memory.
        """
        while self.watermark in self.learnt_above:
            self.learnt_above.remove(self.watermark)
            self.watermark += 1
        if len(self.learnt_above) > LIMIT:
            self._skip_gaps()
            return True
        return False

    def _skip_gaps(self) -> None:
        """Keep only the highest numbers, and count all below them as learnt."""
        self.first_gap = min(self.first_gap, self.watermark)
        self.watermark = sorted(self.learnt_above)[-LIMIT // 2]
        self.learnt_above = {number for number in self.learnt_above if number >= self.watermark}
        self._raise_watermark()


class CountingLedger(Ledger):
    """A ledger that only counts, and so accepts every id: its caller ensures that nothing is learnt twice."""

    def __init__(self, moment: int, next_id: int) -> None:
        super().__init__()
        self.moment, self.next_id = moment, next_id

    def are_all_learnable(self, identities: Sequence[int | str]) -> bool:
        return True

    def record(self, identity: int | str) -> None:
        self.record_all((identity,))

    def record_all(self, identities: Sequence[int | str], more_follow: bool = False) -> None:
        self.moment += len(identities)
        self._advance_next_id(max((identity for identity in identities if isinstance(identity, int)), default=-1))
