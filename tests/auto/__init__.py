"""Tests of `auto`, the learner that one gets by naming none."""
