"""What every rule is written with, as plain Python that the engine compiles; and what all parts agree on: options, names, files, memory."""
