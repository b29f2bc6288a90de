"""Tests of `onebit.offpolicy`: what another learner would have scored on a log."""
