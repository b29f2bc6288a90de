"""Learners as files."""
