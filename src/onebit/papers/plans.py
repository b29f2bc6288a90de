"""The base of all item plans: their streams, their trials, and verdicts for missing measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from onebit.data.sources import Source, source_of
from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError
from onebit.experiments.runner import TrialCollector
from onebit.experiments.trials import Trial
from onebit.experiments.trials.records import Record
from onebit.papers import PaperData, PaperItem
from onebit.papers.verdicts import ItemResult, Status, Verdict

QUICK_RUNS = 2


class PaperStreams:
    """The streams of a paper; each source is opened, or found unavailable, only once."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._sources: dict[tuple[str, str], Source | OnebitError] = {}

    def open_stream(self, item: PaperItem, data: PaperData) -> Stream | OnebitError:
        """Return the stream of an item's data set, or the error that says why it is not available."""
        settings = dict(data.settings)
        prepare = settings.pop("prepare", ())
        key = data.source, str(prepare)
        if key not in self._sources:
            try:
                self._sources[key] = source_of(data.source, prepare=prepare, progress=self._progress)
            except OnebitError as error:
                self._sources[key] = error
        source = self._sources[key]
        if isinstance(source, OnebitError):
            return source
        return stream(source, **{"rounds": item.rounds, "order": "file", **settings})


class ItemPlan(ABC):
    """How an item is run: the trials it needs, and what their records show."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
        self.item, self.runs = item, min(item.runs, QUICK_RUNS) if quick else item.runs
        self.streams = {data.name: streams.open_stream(item, data) for data in item.data}

    def trials(self) -> list[Trial]:
        """Return the trials whose records the item needs: those on all data sets that are available."""
        pairs = [(name, data_stream) for name, data_stream in self.streams.items() if isinstance(data_stream, Stream)]
        return [trial for name, data_stream in pairs for trial in self.trials_on(name, data_stream)]

    def trials_on(self, data: str, data_stream: Stream) -> list[Trial]:
        """Return the trials on one data set; none by default."""
        return []

    @abstractmethod
    def result(self, collector: TrialCollector) -> ItemResult:
        """Return the verdicts and drawings made from the collected records; runs nothing."""

    def missing_verdict(self, data: str, claim: str, verdict: Status = Status.MISSING, published: str = "") -> Verdict:
        """Return the verdict for something that could not be measured, with the reason."""
        by_status = {
            Status.FAILED: "some of its runs failed",
            Status.NOT_RUN: "its runs were not done, or with other code or other data",
        }
        reason = by_status.get(verdict) or str(self.streams[data])
        return Verdict(self.item.name, data, claim, published, None, "", verdict, reason)

    def records_on(self, collector: TrialCollector, data: str) -> list[Record] | Status:
        """Return the records of the trials on one data set, or the status that says why there are none."""
        data_stream = self.streams[data]
        if not isinstance(data_stream, Stream):
            return Status.MISSING
        return self.records(collector, self.trials_on(data, data_stream))

    def records(self, collector: TrialCollector, trials: Sequence[Trial]) -> list[Record] | Status:
        """Return the records of these trials, or a status if one of them is missing or failed."""
        records = collector.records_of(trials)
        if len(records) < len(trials):
            return Status.NOT_RUN
        return Status.FAILED if any(record.why for record in records) else records
