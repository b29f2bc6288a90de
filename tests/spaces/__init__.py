"""Tests of the spaces in which rules learn."""
