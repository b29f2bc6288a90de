"""The log: an SQLite file to which rows are only ever added. What the learners know is a function of it."""
