"""onebit for coba: any learner in a coba experiment, and coba's environments as streams.

coba asks for one of the actions of a round and reports its reward. If actions have no features and rewards are from 0 to 1, actions are
classes, those of a round are its candidates, and reward 1 is "right".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onebit.contract.installation import require
from onebit.contract.options import check_options
from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName, join_names
from onebit.data import streams
from onebit.data.streams import Stream
from onebit.errors import InputError, brief
from onebit.learner.classes import to_class_name
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner
from onebit.rules import DEFAULT


class CobaLearner:
    """A learner for coba.

    `learner` is the name of a rule or a `Rule`, with its `options`, or a learner, which is copied.

    >>> learner = CobaLearner("bpa", seed=1, aggressiveness=0.01)
    >>> action, probability, kept = learner.predict([0.5, 1.0], ["left", "right"])
    >>> learner.learn([0.5, 1.0], action, 1.0, probability, **kept)
    >>> learner.learner.learnt
    1
    """

    def __init__(self, learner: str | Rule | Learner = DEFAULT, *, seed: int | None = None, **options: Any) -> None:
        if isinstance(learner, Learner) and (options or seed is not None):
            raise InputError("seed and options cannot be given with a learner, which has its own")
        options = check_options(options, classes="the actions of the environment")
        self._template, self._options, self._seed = learner, options, 0 if seed is None else seed
        self._names: dict[Any, ClassName] = {}  # the class of each action, in order
        # Bad options raise an error now, not in the first round.
        example = learner if isinstance(learner, Learner) else self._make_learner((0, 1))
        if example.runtime.needs_labels:
            raise InputError(f"{example.runtime.rule.title} learns from labels, but coba gives rewards")
        self._rule = example.runtime.rule
        self.learner: Learner | None = None  # set once the actions are known

    @property
    def params(self) -> dict[str, Any]:
        """The description of the learner for coba's tables."""
        if isinstance(self._template, Learner):
            runtime = self._template.runtime
            return {"family": f"onebit.{self._rule.title}", **runtime.parameters, "seed": runtime.seed}
        return {"family": f"onebit.{self._rule.title}", **self._options, "seed": self._seed}

    def predict(self, context: Any, actions: Sequence[Any]) -> tuple[Any, float, dict[str, Decision]]:
        """Choose one of the actions; return it with its probability and the decision, for `learn`."""
        learner, names = self._prepare(context, actions)
        decision = learner.decide(read_context(context), among=names)
        return actions[names.index(decision.label)], decision.propensity, {"decision": decision}

    def score(self, context: Any, actions: Sequence[Any], action: Any) -> float:
        """Return the probability of playing an action."""
        learner, names = self._prepare(context, actions)
        return learner.probabilities(read_context(context), among=names)[self._find_class(action)]

    def learn(
        self, context: Any, action: Any, reward: float, probability: float | None, decision: Decision | None = None
    ) -> None:
        """Learn the reward of a decision or, without one, of an action that another policy played."""
        if self.learner is None:
            raise InputError("the actions are not known yet: call predict before learn")
        if decision is None:
            label = self._find_class(action)
            decision = self.learner.from_log(read_context(context), label, probability)  # type: ignore[arg-type]
        self.learner.learn(decision, reward=reward)

    def _find_class(self, action: Any) -> ClassName:
        """Return the class of a known action."""
        if to_hashable(action) not in self._names:
            raise InputError(f"there is no action {brief(action)}; the actions are {join_names(self._names)}")
        return self._names[to_hashable(action)]

    def _prepare(self, context: Any, actions: Sequence[Any]) -> tuple[Learner, list[ClassName]]:
        """Return the learner, creating it in the first round, and the classes of these actions."""
        if hasattr(context, "is_batch") or hasattr(actions, "is_batch"):
            raise InputError("batches are not supported: give single rows")  # coba then passes single rows
        keys = action_keys(actions)
        if self.learner is None:
            names = name_actions(keys)
            self.learner, self._names = self._make_learner(tuple(names.values())), names
        new_keys = [key for key in keys if key not in self._names]
        if new_keys:
            self._names |= self._name_new_actions(self.learner, new_keys)
        return self.learner, [self._names[key] for key in keys]

    def _name_new_actions(self, learner: Learner, keys: list[Any]) -> dict[Any, ClassName]:
        """Return the classes of actions that are new since the first round.

        Raise InputError unless they are classes of a learner given by the user.
        """
        names = {key: _name_action(key) for key in keys}
        if not isinstance(self._template, Learner) or not set(names.values()) <= set(learner.classes):
            raise InputError(
                f"there is no action {brief(keys[0])}; those of the first round are {join_names(self._names)}: if actions change from "
                "round to round, give CobaLearner a learner with all of them as classes"
            )
        return names

    def _make_learner(self, classes: tuple[ClassName, ...]) -> Learner:
        if not isinstance(self._template, Learner):
            return Learner(self._template, classes=classes, seed=self._seed, **self._options)
        if not set(classes) <= set(self._template.classes):
            raise InputError(
                f"the actions are {join_names(classes)}, but the learner has the classes {join_names(self._template.classes)}"
            )
        return copy_learner(self._template)


def to_hashable(action: Any) -> Any:
    """Return an action as a dict key: a tuple instead of a list."""
    return tuple(action) if isinstance(action, list | tuple) else action


def action_keys(actions: Sequence[Any] | None) -> list[Any]:
    """Return the actions of a round as hashable keys; refuse actions that cannot be classes."""
    if not isinstance(actions, Sequence) or not actions:
        raise InputError("there are no actions to choose from: continuous actions are not supported")
    for action in actions:
        if isinstance(action, Mapping):
            raise InputError(f"an action is {brief(action)}, but must be a class: a name, a number or a one-hot tuple")
    return [to_hashable(action) for action in actions]


def name_actions(keys: list[Any]) -> dict[Any, ClassName]:
    """Return the class of each action: its name, or the index of the 1 in a one-hot tuple.

    >>> name_actions([(1, 0), (0, 1)]), name_actions(["left", "right"])
    ({(1, 0): 0, (0, 1): 1}, {'left': 'left', 'right': 'right'})
    """
    for key in keys:
        if isinstance(key, tuple) and len(key) != len(keys):
            raise _features_error(key)
    return {key: _name_action(key) for key in keys}


def _name_action(key: Any) -> ClassName:
    if not isinstance(key, tuple):
        return to_class_name(key)
    if sorted(key) != [0] * (len(key) - 1) + [1]:
        raise _features_error(key)
    return key.index(1)


def _features_error(key: Any) -> InputError:
    return InputError(
        f"an action is {brief(key)}, but must be a class: actions may be one-hot tuples, not have features"
    )


def read_context(context: Any) -> list[float] | dict[str, float]:
    """Return a context as a row: numbers, or a dict of numbers; without a context, a constant.

    >>> read_context(None), read_context(2), read_context((1, (0, 1))), read_context({"a": 1})
    ([1.0], [2.0], [1.0, 0.0, 1.0], {'a': 1.0})
    """
    if context is None:
        return [1.0]
    if isinstance(context, Mapping):
        return {str(name): _number(value) for name, value in context.items()}
    if isinstance(context, str) or not isinstance(context, Iterable):
        return [_number(context)]
    parts: list[float] = []
    for value in context:
        parts.extend(map(_number, value) if isinstance(value, list | tuple) else [_number(value)])
    return parts


def _number(value: Any) -> float:
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise InputError(f"a context contains {brief(value)}, but features must be numbers or coba's categories")


def stream(environment: Any, **settings: Any) -> Stream:
    """Return a coba environment as a stream for `onebit.run` and `onebit.compare`; actions are classes.

    In every round one action must have reward 1 and the others 0, as supervised environments have it. Rounds come in the order of the
    environment unless another `order` is given; the further keywords are those of `onebit.stream`.
    """
    environments = require("coba.environments", "a coba environment", "coba")
    if not hasattr(environment, "read"):
        raise InputError(f"{brief(environment)} is not an environment of coba; of a list, give one: environments[0]")
    rows: list[Any] = []
    labels: list[ClassName] = []
    names: dict[Any, ClassName] = {}
    for number, interaction in enumerate(environments.BatchSafe(environments.Finalize()).filter(environment.read())):
        try:
            row, label, names = _read_round(interaction, names)
        except InputError as error:
            raise InputError(f"round {number} of the environment: {error}") from None
        rows.append(row)
        labels.append(label)
    if not rows:
        raise InputError("the environment has no rounds")
    X = np.array(rows) if len({len(row) if isinstance(row, list) else -1 for row in rows} - {-1}) == 1 else rows
    result = streams.stream(X, labels, **{"classes": list(names.values()), "order": "file", **settings})
    name = str(dict(getattr(environment, "params", {})).get("env_type", type(environment).__name__))
    return replace(result, source=replace(result.source, name=name))


def _read_round(
    interaction: Mapping[str, Any], names: dict[Any, ClassName]
) -> tuple[Any, ClassName, dict[Any, ClassName]]:
    """Return the row, the right class, and the class of each action; actions may not change."""
    context, actions, rewards = (interaction.get(part) for part in ("context", "actions", "rewards"))
    if hasattr(context, "is_batch") or hasattr(actions, "is_batch"):
        raise InputError("expected a single row, got a batch: unbatch() the environment")
    if rewards is None:
        raise InputError("the rewards of all actions are needed, but only logged ones are there")
    keys = action_keys(actions)
    names = names or name_actions(keys)
    if set(keys) != names.keys():
        raise InputError(f"the actions are {join_names(keys)}, but those of earlier rounds are {join_names(names)}")
    assert actions is not None
    values = [rewards(action) for action in actions]
    if sorted(values) != [0] * (len(values) - 1) + [1]:
        raise InputError(f"the rewards are {brief(values)}, but one must be 1 and the others 0")
    return read_context(context), names[keys[values.index(1)]], names
