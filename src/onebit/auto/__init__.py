"""`auto`, the default learner."""
