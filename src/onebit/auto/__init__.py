"""`auto`, the default learner: its rule, and a space with several members for each form of rows.

Instead of a step, as other rules do, the rule hands its space the feedback: first a number for every class, which is
`ABOUT` if the feedback concerns the class (it does not if the class was no candidate); then the label, whether it was
right, and its reward.
"""

ABOUT = 1.0
LABEL, RIGHT, REWARD = range(3)  # positions behind the classes
FEEDBACK_NUMBERS = 3  # count of the numbers behind the classes
