"""The log, to which rows are only ever added: what the learners know is a function of it. Each room below is a store that keeps one."""
