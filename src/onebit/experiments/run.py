"""`onebit.run`: run a learner over a whole stream in one compiled loop, with replicates on threads.

A run gives the same result as stepping a learner by hand, bit for bit: decide, compare, learn, event after event; only the loop sees the
labels. Replicate r uses the seed `seed + r`: generators draw new rows for it, and orders, noise and delays depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.options import MEANINGS
from onebit.contract.parameters import checked_flag, named_parameters, require_known
from onebit.contract.validation import MAX_RUNS, ClassName, checked_count, checked_seed
from onebit.data.dataset import best_constant
from onebit.data.sources import split_columns_and_values
from onebit.data.streams import Stream, stream, stream_parameters
from onebit.engine.processes import cores
from onebit.errors import InputError, brief
from onebit.experiments.executors.threads import execute
from onebit.experiments.statistics import MeanEstimate, estimate
from onebit.experiments.trials import OPTIONS, Outcome, Progress, Trial, make_entry
from onebit.experiments.trials.shared_data import require_room
from onebit.learner.learner import Learner
from onebit.rules import DEFAULT, is_rule

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ErrorCurve:
    """The error so far at some rounds, as fractions with one row per run; also mean rewards, if any."""

    rounds: NDArray[np.int64]
    played: NDArray[np.float64]
    greedy: NDArray[np.float64]
    reward: NDArray[np.float64] | None = None
    greedy_reward: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Result:
    """The result of `onebit.run`. Errors are fractions of the rounds, one per run."""

    rule: str
    params: dict[str, Any]
    data: str
    rounds: int
    errors: NDArray[np.float64]
    greedy_errors: NDArray[np.float64]
    curve: ErrorCurve = field(repr=False)
    rounds_per_second: float
    learner: Learner = field(repr=False)
    caveat: str = ""  # a caution on how to read the errors or rewards
    rewards: NDArray[np.float64] | None = None  # the mean reward of each run, where the stream has rewards
    greedy_rewards: NDArray[np.float64] | None = None

    @property
    def runs(self) -> int:
        return len(self.errors)

    @property
    def error(self) -> float:
        """The mean error of the labels played."""
        return float(self.errors.mean())

    @property
    def error_sd(self) -> float:
        """The standard deviation of the error between runs; 0 for a single run."""
        return float(self.errors.std(ddof=1)) if self.runs > 1 else 0.0

    @property
    def error_interval(self) -> MeanEstimate:
        """The mean error with its 95 % interval, whose ends are NaN for a single run."""
        return estimate(self.errors)

    @property
    def greedy_error(self) -> float:
        """The mean error of the greedy labels, those that the learner considered best."""
        return float(self.greedy_errors.mean())

    @property
    def reward(self) -> float:
        """The mean reward of the labels played; without rewards, the share of correct labels."""
        return self.reward_interval.mean

    @property
    def reward_interval(self) -> MeanEstimate:
        """The mean reward with its 95 % interval."""
        return estimate(1.0 - self.errors if self.rewards is None else self.rewards)

    @property
    def greedy_reward(self) -> float:
        """The mean reward of the greedy labels, those that the learner considered best."""
        return float(np.mean(1.0 - self.greedy_errors if self.greedy_rewards is None else self.greedy_rewards))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, as printed by `onebit run --json`."""
        rewards: dict[str, Any] = {}
        if self.rewards is not None and self.greedy_rewards is not None:
            rewards = {
                "reward_mean": self.reward,
                "reward_interval": [self.reward_interval.to_dict()[end] for end in ("low", "high")],
                "greedy_reward_mean": self.greedy_reward,
                "rewards": self.rewards.tolist(),
                "greedy_rewards": self.greedy_rewards.tolist(),
            }
        return {
            "rule": self.rule,
            "params": self.params,
            "data": self.data,
            "rounds": self.rounds,
            "runs": self.runs,
            "error_mean": self.error,
            "error_sd": self.error_sd,
            "error_interval": [self.error_interval.to_dict()[end] for end in ("low", "high")],
            "greedy_error_mean": self.greedy_error,
            "errors": self.errors.tolist(),
            "greedy_errors": self.greedy_errors.tolist(),
            "rounds_per_second": self.rounds_per_second,
            "caveat": self.caveat,
            **rewards,
        }

    def plot(self, logarithmic: bool = False) -> Figure:
        """Plot the curves of the played and the greedy labels with intervals, as a matplotlib figure."""
        from onebit.experiments.drawing import draw_result
        from onebit.experiments.report.figures import draw_figure

        return draw_figure(draw_result(self, logarithmic))


class Stopped(KeyboardInterrupt):
    """Ctrl-C during an experiment; `result` holds the runs finished by then, or None."""

    def __init__(self, result: Any) -> None:
        super().__init__("stopped")
        self.result = result


def run(
    learner: Any = DEFAULT,
    X: Any = None,
    y: Any = None,
    *,
    runs: int = 1,
    seed: int | None = None,
    classes: Iterable[ClassName] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    calibrate: bool = False,
    **options: Any,
) -> Result:
    """Run a learner over a stream and count its mistakes.

    `learner` is a name, a rule or a learner class with its `options`, or a `Learner`; every run starts from a copy, and the learner itself does not change. The
    default is `auto`: `onebit.run("digits")` is enough. `X` is the name of a data set, a path, rows with labels `y`, or a stream; the keywords of
    `onebit.stream` (`rounds`, `order`, `noise`, `delay`, `prepare`, ...) say how the data arrive. With more `rounds` than rows, the rows are used again.
    With `calibrate`, the result's learner also estimates its confidence in each label (`Decision.confidence`), which takes a tenth of a microsecond a round.

    Side effects: the first use of a rule compiles it into the user's cache, and data may be downloaded into it.

    >>> import onebit
    >>> result = onebit.run("perceptron", "synsep10", rounds=2000, runs=2)
    >>> result.runs, 0.2 < result.error < 0.6
    (2, True)
    """
    checked_count("runs", runs, MAX_RUNS)
    if X is None:
        if not isinstance(learner, str | Path | Stream) or (isinstance(learner, str) and is_rule(learner)):
            raise InputError("X is missing: give the name of a data set, a path, a stream, or rows with their labels y")
        learner, X = DEFAULT, learner
    names = [name for name in STREAM_SETTINGS if name in options and not _is_parameter(learner, name, options[name])]
    settings = {name: options.pop(name) for name in names}
    if isinstance(settings.get("text"), bool):
        if not isinstance(learner, Learner):
            options["text"] = settings["text"]  # text rows need a learner that reads text
        if isinstance(X, Stream):
            del settings["text"]
    if isinstance(learner, Learner):
        if classes is not None:
            raise InputError("a Learner has its own classes and options: leave them out")
        has_labels = y is not None or "rewards" in split_columns_and_values(rewards=settings.get("rewards"))[1]
        classes = learner.classes if has_labels else None
    if options and not isinstance(learner, Learner):
        rule = make_entry(learner).rule
        require_known(
            rule.title,
            options,
            {**rule.parameters, **OPTIONS, **dict.fromkeys((*STREAM_SETTINGS, *named_parameters(run)))},
        )
    entry = make_entry(learner, options)
    if classes is not None:
        settings["classes"] = classes
    data_stream = stream(X, y, **settings)
    default_seed = learner.runtime.seed if isinstance(learner, Learner) else data_stream.seed
    first_seed = checked_seed(default_seed if seed is None else seed)
    threads = checked_count("threads", threads) if threads is not None else cores()
    first_trial = Trial(entry, data_stream, first_seed, calibrate=bool(checked_flag("calibrate", calibrate)))
    return _run_replicates(first_trial, int(runs), threads, progress or (lambda count: None))


def _is_parameter(learner: Any, name: str, value: object) -> bool:
    """Return True if a keyword that streams also have is meant for the learner, judging by its value.

    The rule policy-gradient also has a parameter `rewards`, which is centred or plain.
    """
    parameters = {} if isinstance(learner, Learner) else make_entry(learner).rule.parameters
    try:
        return name in parameters and parameters[name].encode(name, value) is not None
    except InputError:
        return False


STREAM_SETTINGS = tuple(name for name in stream_parameters() if name not in ("classes", "progress", "seed"))


def _run_replicates(first_trial: Trial, runs: int, threads: int, progress: Progress) -> Result:
    """Run the trial of the first seed and those of the following seeds."""
    require_room([first_trial.stream] * min(runs, threads), threads)
    trials = ([replace(first_trial, seed=first_trial.seed + number)] for number in range(runs))
    outcomes: list[Outcome] = []
    first: Outcome | None = None  # of the lowest seed; only its learner is kept
    try:
        with closing(execute(trials, min(runs, threads), progress)) as finished:
            for outcome in finished:
                if outcome.why is not None:
                    raise outcome.why
                if first is None or outcome.trial.seed < first.trial.seed:
                    first = outcome
                outcomes.append(replace(outcome, learner=None))
    except KeyboardInterrupt:
        raise Stopped(None if first is None else _summarise(first_trial, outcomes, first.learner)) from None
    assert first is not None
    return _summarise(first_trial, outcomes, first.learner)


def describe_constant(stream: Stream, reward: float) -> str:
    """Describe the best constant choice if its mean reward exceeds `reward`; else return "".

    Also empty if the rounds have candidates, or the stream has no rewards.
    """
    if not stream.source.rewards or stream.restricted:
        return ""
    data = stream.data(0)
    assert data.rewards is not None
    best, mean = best_constant(data.rewards[: stream.rounds] if stream.order == "file" else data.rewards)
    return f"always naming {brief(data.classes[best])} has a mean reward of {mean:.4f}" if mean > reward else ""


def _summarise(trial: Trial, outcomes: list[Outcome], learner: Learner | None) -> Result:
    """Summarise the finished runs in the order of their seeds."""
    assert learner is not None
    entry, data_stream, rounds = trial.entry, trial.stream, trial.stream.rounds
    tallies = [outcome.tally for outcome in sorted(outcomes, key=lambda outcome: outcome.trial.seed)]
    marks = tallies[0].marks
    curves = np.stack([tally.curve for tally in tallies]) / marks
    errors = np.stack([tally.mistakes[:2] for tally in tallies]) / rounds
    common = {name: value for name, value in entry.options.items() if name in MEANINGS}
    rewards, reward_curves, constant = None, [], ""
    if data_stream.source.rewards:
        rewards = np.stack([tally.rewards for tally in tallies]) / rounds
        reward_curves = list(np.stack([tally.reward_curve for tally in tallies], axis=1) / marks)
        constant = describe_constant(data_stream, float(rewards[:, 0].mean()))
    return Result(
        rule=entry.rule.name,
        params={**learner.settings, **common},
        data=data_stream.name,
        rounds=rounds,
        errors=errors[:, 0],
        greedy_errors=errors[:, 1],
        curve=ErrorCurve(marks, curves[:, 0], curves[:, 1], *reward_curves),
        rounds_per_second=rounds * len(outcomes) / max(1e-9, sum(outcome.seconds for outcome in outcomes)),
        learner=learner,
        caveat="; ".join(filter(None, [data_stream.caveat, constant and f"{constant}, more than the learner"])),
        rewards=None if rewards is None else rewards[:, 0],
        greedy_rewards=None if rewards is None else rewards[:, 1],
    )
