"""Run experiments (runs, comparisons, sweeps), keep their records and render the result pages."""
