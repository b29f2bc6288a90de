"""A run: a learner on a stream, once or many times, compiled."""
