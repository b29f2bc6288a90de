"""The log in a PostgreSQL database that any number of nodes write to and follow."""
