"""The published experiments: one TOML file a paper with its data, learners, parameters and numbers, and what runs them again."""
