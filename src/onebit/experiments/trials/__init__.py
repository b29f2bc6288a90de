"""A trial: one learner, one stream, one seed. What it is, and what came of it."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from importlib import resources
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

LINEAR_MARKS, LOGARITHMIC_MARKS = 120, 80  # of a curve, which is looked at both ways

CPU = "CPU"  # what a trial ran on; for a GPU it is the name of the device

Progress = Callable[[int], None]  # told how many rounds have been done since the last call

# What any learner takes besides the parameters of its rule. Trials have seeds, and data have classes.
OPTIONS = {name: meaning for name, meaning in MEANINGS.items() if name not in ("seed", "classes")}


@dataclass(frozen=True)
class ComparisonEntry:
    """A learner as it takes part: a rule with options, or a learner of which every trial gets a copy."""

    template: Rule | Learner
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def rule(self) -> Rule:
        return self.template.runtime.rule if isinstance(self.template, Learner) else self.template

    @property
    def options_text(self) -> str:
        """The options as text; empty for a learner with defaults."""
        return format_options(self.options)

    @property
    def title(self) -> str:
        return f"{self.rule.name}, {self.options_text}" if self.options else self.rule.name

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All parameters, those left to their defaults too; a bad one is refused."""
        assert isinstance(self.template, Rule)
        require_known(self.rule.title, self.options, {**self.rule.parameters, **OPTIONS})
        own = {name: value for name, value in self.options.items() if name in self.rule.parameters}
        common = {name: value for name, value in self.options.items() if name not in own}
        return {**self.rule.defaults, **self.rule.plain(own), **common}

    @cached_property
    def code(self) -> str:
        """A hash of the code of its rule and of the loop."""
        return code_mark(self.rule)

    @cached_property
    def key(self) -> str:
        """What makes it what it is, as text: its rule by name and by code, and all parameters."""
        return json.dumps([self.rule.name, self.code, self.settings], sort_keys=True)

    def make(self, stream: Stream, data: Dataset, seed: int, longest_squared: Callable[[], float]) -> Learner:
        """Return a fresh learner that has seen the form of these rows."""
        made = self.begin(stream, data, seed, longest_squared)
        made.runtime.fix_features(data.given)
        return made

    def begin(self, stream: Stream, data: Dataset, seed: int, longest_squared: Callable[[], float]) -> Learner:
        """Return a fresh learner; its rule may plan with the number of rounds and the length of the longest row."""
        if isinstance(self.template, Learner):
            return copy_learner(self.template, seed)
        options = {"text": True, **self.options} if stream.source.text else self.options
        if self.template.plan is not None:
            norm = np.array([longest_squared() + bool(options.get("bias"))])
            if options.get("kernel") is not None:
                norm = Kernel.read(options["kernel"], 1).selves(norm)
            options = {**options, **self.template.plan(options, stream.rounds, float(np.sqrt(norm[0])))}
        return learner_class(self.template)(data.classes, seed=seed, **options)


def make_entry(learner: object, options: dict[str, Any] | None = None) -> ComparisonEntry:
    """The entry of a name, a learner class or a rule, with options, or of a learner."""
    options = dict(options or {})
    if isinstance(learner, Learner):
        if options:
            raise InputError("a learner brings its own classes and options")
        return ComparisonEntry(learner)
    if isinstance(learner, str):
        learner = rule_named(learner)
    if isinstance(learner, type) and issubclass(learner, Learner) and hasattr(learner, "_rule"):
        learner = learner._rule
    if not isinstance(learner, Rule):
        raise InputError(
            f"learner is {brief(learner)}, but must be the name of one, a Rule, a learner class, or a Learner"
        )
    entry = ComparisonEntry(learner, options)
    _ = entry.settings
    planned = learner.plan(options, 1, 1.0) if learner.plan is not None else {}
    learner_class(learner)(2, **{**options, **planned, "features": None})  # bad options are found now
    return entry


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


@dataclass(frozen=True)
class Measurement(ABC):
    """Something that is measured on the learner of a finished trial, and kept in its record.

    Its fields and the source of `modules`, which measure it, decide whether a kept record still holds.
    """

    kind: ClassVar[str]
    what: ClassVar[str]  # for people: "its boundary"
    modules: ClassVar[tuple[str, ...]]

    @property
    def described(self) -> dict[str, Any]:
        """All that makes it what it is, as plain values."""
        return {"kind": self.kind, **asdict(self), "code": source_mark(*self.modules)}

    @abstractmethod
    def take(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        """Return what was measured, as plain values."""


@dataclass(frozen=True)
class Trial:
    """One learner on one stream with one seed; `curve` says whether its curve is kept, which is most of a record.

    `calibrate` says that somebody will ask its learner how sure it is: what that is known by takes time, and changes nothing else.
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
        """A hash of what it is: the code, the learner, the stream and the seed, wherever it stands in whichever list."""
        measured = None if self.measurement is None else self.measurement.described
        what = [VERSION, self.entry.key, self.stream.key, str(self.seed), json.dumps(measured, sort_keys=True)]
        return hashlib.blake2b("\n".join(what).encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """The result of a trial: what was counted and the learner as it is now, or why it failed.

    `seconds` is the time of one core in the loop; of a device that runs many trials at once, this one's share of its time.
    """

    trial: Trial
    tally: Tally
    seconds: float
    learner: Learner | None
    why: OnebitError | None = None
    on: str = CPU
    measured: dict[str, Any] | None = None


def choose_marks(rounds: int) -> NDArray[np.int64]:
    """The rounds at which a curve has its points: evenly spaced, and evenly spaced in the logarithm."""
    linear = np.linspace(1, rounds, min(LINEAR_MARKS, rounds))
    return np.unique(np.concatenate([linear, np.geomspace(1, rounds, LOGARITHMIC_MARKS)]).round().astype(np.int64))


def format_options(options: Mapping[str, Any]) -> str:
    """Options as text.

    >>> format_options({"exploration": 0.1, "variant": "PA-I"})
    'exploration=0.1, variant=PA-I'
    """
    return ", ".join(f"{name}={_word(value)}" for name, value in options.items())


def _word(value: object) -> str:
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return repr(value) if isinstance(value, float) and float(short) != value else short
