"""What every rule is written with: parameters, draws, choices, step sizes. Plain Python, compiled by the engine."""
