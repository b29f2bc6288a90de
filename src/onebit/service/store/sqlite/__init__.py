"""The log in a folder: one SQLite file, the snapshots beside it, and a lock on both."""
