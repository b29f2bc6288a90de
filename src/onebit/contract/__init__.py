"""The contract between rules and engine, and shared definitions: options, names, files and memory.

Rules are written with it in plain Python that the engine compiles.
"""
