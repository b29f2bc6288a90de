"""The published experiments, one TOML file a paper: data, learners, parameters, numbers. `onebit.experiments.paper` reads them."""
