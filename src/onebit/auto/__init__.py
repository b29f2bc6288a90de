"""`auto`, the default learner: its rule, and a space with several members for each form of rows.

In place of the step of other rules, the rule hands its space the feedback: first a number for every class, `ABOUT` where the feedback is
about it, which it is not where it was no candidate; then the label, whether it was right, and what it was worth.
"""

ABOUT = 1.0
LABEL, RIGHT, REWARD = range(3)  # behind the classes
HEARD = 3  # how many numbers are behind the classes
