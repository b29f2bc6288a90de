"""What the rule tells a space of `auto` after feedback, in place of the step of other rules.

First a number for every class: `ABOUT` where the feedback is about it, which it is not where it was no candidate; then the label, whether it was
right, and what it was worth.
"""

from __future__ import annotations

ABOUT = 1.0
LABEL, RIGHT, REWARD = range(3)  # behind the classes
HEARD = 3
