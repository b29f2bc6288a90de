"""The feedback dictionary of Open Bandit Pipeline as a log.

`context`, `action`, `reward` (from 0 to 1), `pscore` and `pi_b` are read. Such a dictionary has no candidates. `action_context` and `expected_reward` are not: actions are known by their
numbers alone, and what nobody could see is no part of a log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, brief
from onebit.offpolicy.logs import Log
from onebit.offpolicy.rounds import Round


def obp_log(feedback: Mapping[str, Any]) -> Log:
    """The rounds of a feedback dictionary of Open Bandit Pipeline, with its actions 0, 1, ... as classes.

    >>> feedback = {"n_rounds": 2, "n_actions": 2, "context": np.eye(2), "action": np.array([0, 1]), "position": None,
    ...             "reward": np.array([1, 0]), "pscore": np.array([0.5, 0.5])}
    >>> log = obp_log(feedback)
    >>> log.classes, [one.right for one in log]
    ((0, 1), [True, False])
    """
    if not isinstance(feedback, Mapping):
        raise InputError(
            f"the feedback is a {type(feedback).__name__}, but must be a dictionary as Open Bandit Pipeline has it"
        )
    for name in ("context", "action", "reward"):
        if feedback.get(name) is None:
            raise InputError(f"the feedback has no {name}")
    rounds = len(feedback["action"])
    context, action, reward = (_column(feedback, name, rounds) for name in ("context", "action", "reward"))
    if context.ndim != 2:
        raise InputError(f"context has the shape {context.shape}, but must have a row for each round")
    if action.ndim != 1 or action.dtype.kind not in "iu":
        raise InputError("action must be a whole number for each round")
    if reward.ndim != 1 or reward.dtype.kind not in "iufb":
        raise InputError("reward must be a number for each round")
    bad = np.flatnonzero(~((reward >= 0) & (reward <= 1)))
    if len(bad):
        raise InputError(
            f"reward[{bad[0]}] is {brief(reward[bad[0]].item())}, but must be from 0 to 1: of rewards from a to b, give (reward - a) / (b - a)"
        )
    actions = int(feedback.get("n_actions") or action.max(initial=0) + 1)
    _refuse_positions(feedback, rounds)
    pscore = None if feedback.get("pscore") is None else _column(feedback, "pscore", rounds)
    chances = _distributions(feedback, rounds, actions)

    def entries(with_x: bool) -> Iterator[Round]:
        for row in range(rounds):
            yield Round(
                row,
                context[row] if with_x else None,
                int(action[row]),
                bool(reward[row]) if reward[row] in (0, 1) else None,
                None if pscore is None else float(pscore[row]),
                None if chances is None else chances[row],
                reward=None if reward[row] in (0, 1) else float(reward[row]),
            )

    return Log("the feedback", entries, range(actions))


def _column(feedback: Mapping[str, Any], name: str, rounds: int) -> NDArray[Any]:
    found = np.asarray(feedback[name])
    if found.ndim == 0 or len(found) != rounds:
        raise InputError(f"{name} has the shape {found.shape}, but there are {rounds} rounds")
    return found


def _refuse_positions(feedback: Mapping[str, Any], rounds: int) -> None:
    if feedback.get("position") is None:
        return
    positions = np.unique(_column(feedback, "position", rounds))
    if len(positions) > 1:
        raise InputError(
            f"the feedback has {len(positions)} positions, and onebit decides on one label at a time: give the rounds of one position"
        )


def _distributions(feedback: Mapping[str, Any], rounds: int, actions: int) -> NDArray[np.float64] | None:
    """The probabilities of all actions, where the dictionary has them for one position."""
    found = None if feedback.get("pi_b") is None else np.asarray(feedback["pi_b"], dtype=np.float64)
    if found is None:
        return None
    if found.shape not in ((rounds, actions, 1), (rounds, actions)):
        raise InputError(
            f"pi_b has the shape {found.shape}, but must be {(rounds, actions, 1)}: rounds, actions, and one position"
        )
    return found.reshape(rounds, actions)
