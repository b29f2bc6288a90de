"""The space of `auto` for dense rows: its members, and how they are weighed."""

CALLED = True  # by the loop, which is not to hold all of it: see `engine.linking`
