"""The append-only log, from which all learner state is derived, and the stores that keep it."""
