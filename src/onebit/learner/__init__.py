"""The learner and its operations: decide, learn, inspect, explain and save."""
