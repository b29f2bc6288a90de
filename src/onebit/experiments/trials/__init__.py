"""A trial is one learner on one stream with one seed: its definition, identity and outcome."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onebit.contract.options import MEANINGS
from onebit.contract.parameters import require_known
from onebit.contract.rule import Rule
from onebit.data.dataset import Dataset
from onebit.data.streams import Stream
from onebit.engine.compile import code_mark
from onebit.engine.stream import Tally
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.learner import Learner, copy_learner, learner_class
from onebit.rules import rule_named
from onebit.spaces.kernels import Kernel
from onebit.version import VERSION

PACKAGE = Path(__file__).parents[2]
MEASURING = ("papers", "theory")  # subpackages with code that measures learners

LINEAR_MARKS, LOGARITHMIC_MARKS = 120, 80  # curve points, for linear and logarithmic axes

CPU = "CPU"  # device name of trials run on a CPU; for GPUs it is the model

Progress = Callable[[int], None]  # called with the number of rounds done since the last call

# Options of all learners, besides their rule's parameters. The seed comes from the trial, the classes from the data.
OPTIONS = {name: meaning for name, meaning in MEANINGS.items() if name not in ("seed", "classes")}


@dataclass(frozen=True)
class ComparisonEntry:
    """A learner that takes part: a rule with options, or a learner that each trial copies."""

    template: Rule | Learner
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def rule(self) -> Rule:
        return self.template.runtime.rule if isinstance(self.template, Learner) else self.template

    @property
    def title(self) -> str:
        return f"{self.rule.name}, {format_options(self.options)}" if self.options else self.rule.name

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All parameters, including defaults; raises InputError for an invalid one."""
        assert isinstance(self.template, Rule)
        require_known(self.rule.title, self.options, {**self.rule.parameters, **OPTIONS})
        own = {name: value for name, value in self.options.items() if name in self.rule.parameters}
        common = {name: value for name, value in self.options.items() if name not in own}
        return {**self.rule.defaults, **self.rule.plain(own), **common}

    @cached_property
    def key(self) -> str:
        """The entry's identity as text: its rule by name and code, and all parameters."""
        return json.dumps([self.rule.name, code_mark(self.rule), self.settings], sort_keys=True)

    def make_learner(self, stream: Stream, data: Dataset, seed: int, longest_squared: Callable[[], float]) -> Learner:
        """Return a new learner that is set up for the form of these rows."""
        learner = self.begin_learner(stream, data, seed, longest_squared)
        learner.runtime.fix_features(data.given)
        return learner

    def begin_learner(self, stream: Stream, data: Dataset, seed: int, longest_squared: Callable[[], float]) -> Learner:
        """Return a new learner, planned for the stream's rounds and longest row if its rule plans."""
        if isinstance(self.template, Learner):
            return copy_learner(self.template, seed)
        options = {"text": True, **self.options} if stream.source.text else self.options
        if self.template.plan is not None:
            norm = np.array([longest_squared() + bool(options.get("bias"))])
            if options.get("kernel") is not None:
                norm = Kernel.read(options["kernel"], 1).self_values(norm)
            options = {**options, **self.template.plan(options, stream.rounds, float(np.sqrt(norm[0])))}
        return learner_class(self.template)(data.classes, seed=seed, **options)


def make_entry(learner: object, options: dict[str, Any] | None = None) -> ComparisonEntry:
    """Return the entry for a name, learner class or rule with options, or for a learner."""
    options = dict(options or {})
    if isinstance(learner, Learner):
        if options:
            raise InputError("a Learner has its own classes and options: leave them out")
        return ComparisonEntry(learner)
    if isinstance(learner, str):
        learner = rule_named(learner)
    if isinstance(learner, type) and issubclass(learner, Learner) and hasattr(learner, "_rule"):
        learner = learner._rule
    if not isinstance(learner, Rule):
        raise InputError(
            f"learner is {brief(learner)}, but must be a learner's name, a Rule, a learner class, or a Learner"
        )
    entry = ComparisonEntry(learner, options)
    _ = entry.settings
    planned = learner.plan(options, 1, 1.0) if learner.plan is not None else {}
    learner_class(learner)(2, **{**options, **planned, "features": None})  # raises for invalid options
    return entry


@cache
def source_mark() -> str:
    """Return a hash of the source that measures; stored measurements are valid while it is unchanged."""
    digest = hashlib.blake2b(digest_size=12)
    for package in MEASURING:
        for file in sorted((PACKAGE / package).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Measurement(ABC):
    """A measurement on the learner of a finished trial, stored in the trial's record.

    Its fields and the source that measures it decide whether a stored record still holds.
    """

    kind: ClassVar[str]
    subject: ClassVar[str]  # its name in messages: "its boundary"

    @property
    def identity(self) -> dict[str, Any]:
        """The measurement's identity as plain values."""
        return {"kind": self.kind, **asdict(self), "code": source_mark()}

    @abstractmethod
    def measure(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Measure, and return the result as plain values."""


@dataclass(frozen=True)
class Trial:
    """One learner on one stream with one seed.

    `curve` says whether the curve, most of a record's size, is stored. `calibrate` makes the learner able to estimate its confidence, which takes
    time and changes nothing else.
    """

    entry: ComparisonEntry
    stream: Stream
    seed: int
    curve: bool = True
    measurement: Measurement | None = None
    calibrate: bool = False

    @property
    def title(self) -> str:
        return f"{self.entry.title} on {self.stream.name}, seed {self.seed}"

    @cached_property
    def identity(self) -> str:
        """A hash of code, learner, stream and seed; independent of the trial's position in a list."""
        measurement = None if self.measurement is None else self.measurement.identity
        parts = [VERSION, self.entry.key, self.stream.key, str(self.seed), json.dumps(measurement, sort_keys=True)]
        return hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """The result of a trial: its counts and the learner afterwards, or why it failed.

    `seconds` is the time of one core in the loop; on a device that runs many trials at once, this trial's share of its time.
    """

    trial: Trial
    tally: Tally
    seconds: float
    learner: Learner | None
    why: OnebitError | None = None
    on: str = CPU
    measured: dict[str, Any] | None = None


def choose_marks(rounds: int) -> NDArray[np.int64]:
    """Return the rounds at which a curve has points: evenly and logarithmically spaced ones."""
    linear = np.linspace(1, rounds, min(LINEAR_MARKS, rounds))
    return np.unique(np.concatenate([linear, np.geomspace(1, rounds, LOGARITHMIC_MARKS)]).round().astype(np.int64))


def format_options(options: Mapping[str, Any]) -> str:
    """Format options as text.

    >>> format_options({"exploration": 0.1, "variant": "PA-I"})
    'exploration=0.1, variant=PA-I'
    """
    return ", ".join(f"{name}={_format_value(value)}" for name, value in options.items())


def _format_value(value: object) -> str:
    """Format a value as text, a number with six digits if these are exact."""
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
