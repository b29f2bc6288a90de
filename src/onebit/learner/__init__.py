"""A learner as its user holds it: decide, learn, inspect, explain and save."""
