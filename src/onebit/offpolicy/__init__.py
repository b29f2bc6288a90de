"""Offline evaluation of learners on a log of decisions, and training from such a log.

A log is a list of `Round`: what was shown for x, with which probability, and whether it was right.
`train(learner, rounds)` trains a learner on it, and `print(evaluate(learner, rounds))` shows estimates, intervals, and
what the log cannot tell. `read_log(path)` reads a log from a file.
"""

from __future__ import annotations

from onebit.offpolicy.estimates import Estimate
from onebit.offpolicy.evaluation import Evaluation, evaluate, evaluate_many
from onebit.offpolicy.log_files import Log, read_log
from onebit.offpolicy.logged_rounds import Round, train

__all__ = ["Estimate", "Evaluation", "Log", "Round", "evaluate", "evaluate_many", "read_log", "train"]
