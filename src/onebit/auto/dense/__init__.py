"""The space of `auto` for dense rows: its members and how they are weighted."""

CALLED = True  # functions are called by the loop rather than inlined, see `engine.linking`
