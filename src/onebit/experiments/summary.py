"""How a learner did in the runs of an experiment: its errors, their mean and interval, its curve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.experiments.statistics import MeanEstimate, estimate
from onebit.trials.records import Record
from onebit.trials.trial import CPU, ComparisonEntry


@dataclass(frozen=True)
class Summary:
    """How one learner did in the runs that were done: errors are fractions, one for each run."""

    entry: ComparisonEntry
    records: list[Record]

    @property
    def runs(self) -> int:
        """How many runs were done."""
        return len(self.records)

    @property
    def errors(self) -> NDArray[np.float64]:
        """The error of the labels played in each run."""
        return np.array([record.error for record in self.records])

    @property
    def error(self) -> MeanEstimate:
        """The mean error of the labels played, with its interval."""
        return estimate(self.errors)

    @property
    def greedy_error(self) -> MeanEstimate:
        """The mean error of the labels that the learner considered best, with its interval."""
        return estimate(np.array([record.greedy_error for record in self.records]))

    @property
    def rewarded(self) -> bool:
        """Whether its streams had rewards."""
        return self.records[0].rewarded

    @property
    def reward(self) -> MeanEstimate:
        """The mean reward of the labels played, with its interval."""
        return estimate(np.array([record.reward for record in self.records]))

    @property
    def greedy_reward(self) -> MeanEstimate:
        """The mean reward of the labels that the learner considered best, with its interval."""
        return estimate(np.array([record.greedy_reward for record in self.records]))

    @property
    def losses(self) -> NDArray[np.float64]:
        """What each run lost: its error, or where there are rewards, what its mean reward lacks to 1."""
        return np.array([1.0 - record.reward for record in self.records]) if self.rewarded else self.errors

    @property
    def loss(self) -> MeanEstimate:
        """What learners are ranked by, lowest first: the mean of what was lost, with its interval."""
        return estimate(self.losses)

    @property
    def full_information(self) -> bool:
        """Whether the class was revealed to it in every round."""
        return self.records[0].full_information

    @property
    def rounds_per_second(self) -> float:
        """In the loop alone: on one core, or with a GPU's share of the time that it took for all its runs."""
        rounds = sum(record.rounds for record in self.records)
        return rounds / max(1e-9, float(sum(record.fields["seconds"] for record in self.records)))

    @property
    def on(self) -> list[str]:
        """What it ran on: `CPU`, the names of GPUs."""
        return list(dict.fromkeys(record.on for record in self.records))

    def difference(self, other: Summary, measure: str = "played") -> MeanEstimate:
        """How much more it errs than another on the same streams, run by run, with the interval of that."""
        return estimate(np.array(list(self.excess(other, measure).values())))

    def excess(self, other: Summary, measure: str = "played") -> dict[int, float]:
        """How much more it errs than another in each run, by the seed of the run; with the measure `reward`, how much less it gets."""
        name, sign = {"played": ("error", 1.0), "greedy": ("greedy_error", 1.0), "reward": ("reward", -1.0)}[measure]
        others = {record.fields["seed"]: record.fields[name] for record in other.records}
        return {
            record.fields["seed"]: sign * (record.fields[name] - others[record.fields["seed"]])
            for record in self.records
            if record.fields["seed"] in others
        }

    def curve(self, measure: str) -> NDArray[np.float64]:
        """The errors so far, one line for each run."""
        return np.stack([record.curve(measure) for record in self.records])

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        rewards = {"reward": self.reward.to_dict(), "greedy_reward": self.greedy_reward.to_dict()}
        return {
            "learner": self.entry.rule.name,
            "options": self.entry.options,
            "feedback": self.records[0].fields["feedback"],
            "runs": self.runs,
            "error": self.error.to_dict(),
            "greedy_error": self.greedy_error.to_dict(),
            "errors": self.errors.tolist(),
            "rounds_per_second": self.rounds_per_second,
            **(rewards if self.rewarded else {}),
        }


def whose_speed(summaries: Iterable[Summary]) -> str:
    """Of what the rounds a second of these are, for the head of their column."""
    devices = dict.fromkeys(device for one in summaries for device in one.on)
    return " or ".join("one core" if one == CPU else f"{one}, its share of the time" for one in devices)
