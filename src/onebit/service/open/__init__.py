"""`onebit.open`: a task in this process, over a folder or over a database that nodes share."""
