"""What all items have as they are run: their streams, their trials, and a verdict for what could not be measured."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any, ClassVar

from onebit.data.sources import Source, source_of
from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError
from onebit.experiments.runner import TrialCollector
from onebit.experiments.trials import Trial
from onebit.experiments.trials.records import Record
from onebit.learner.learner import Learner
from onebit.papers import PaperData, PaperItem
from onebit.papers.verdicts import FAILED, MISSING, NOT_RUN, ItemResult, Verdict

QUICK_RUNS = 2


@cache
def source_mark(*modules: str) -> str:
    """A hash of the source of some modules and packages of onebit: what was measured by them holds while this is the same."""
    digest = hashlib.blake2b(digest_size=12)
    for name in modules:
        found = resources.files("onebit").joinpath(*name.split("."))
        files = [found.with_name(f"{found.name}.py")] if not found.is_dir() else sorted(found.rglob("*.py"))  # type: ignore[attr-defined]
        for file in files:
            digest.update(file.read_bytes())
    return digest.hexdigest()


class PaperStreams:
    """The streams of a paper; data that are not to be had are asked for once."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._sources: dict[tuple[str, str], Source | OnebitError] = {}

    def of(self, item: PaperItem, data: PaperData) -> Stream | OnebitError:
        """The stream of a data set of an item, or why it is not to be had."""
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


@dataclass(frozen=True)
class ItemMeasurement(ABC):
    """What an item measures on the learner of a trial. Its fields and the modules that measure decide whether a kept record still holds."""

    kind: ClassVar[str]
    what: ClassVar[str]  # for people
    modules: ClassVar[tuple[str, ...]]

    @property
    def described(self) -> dict[str, Any]:
        """All that makes it what it is, the code too."""
        return {"kind": self.kind, **asdict(self), "code": source_mark(*self.modules)}

    @abstractmethod
    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Return what was measured, as plain values."""


class ItemPlan(ABC):
    """An item as it is run: the trials it needs, and what their records show."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
        self.item, self.runs = item, min(item.runs, QUICK_RUNS) if quick else item.runs
        self.streams = {data.name: streams.of(item, data) for data in item.data}

    def trials(self) -> list[Trial]:
        """What is to be run and kept; nothing where an item needs no runs."""
        return []

    @abstractmethod
    def result(self, collector: TrialCollector) -> ItemResult:
        """The verdicts, and what is drawn; nothing is run for it."""

    def unmeasured(self, data: str, what: str, verdict: str = MISSING, published: str = "") -> Verdict:
        """The verdict of what could not be measured, with the reason."""
        reasons = {
            FAILED: "some of its runs failed",
            NOT_RUN: "its runs were not done, or with other code or other data",
        }
        told = reasons.get(verdict) or str(self.streams[data])
        return Verdict(self.item.name, data, what, published, None, "", verdict, told)

    def records(self, collector: TrialCollector, trials: Sequence[Trial]) -> list[Record] | str:
        """Return the records of these trials; where one of them is missing or failed, the verdict that says so."""
        found = collector.records_of(trials)
        if len(found) < len(trials):
            return NOT_RUN
        return FAILED if any(record.failed for record in found) else found
