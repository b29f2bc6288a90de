"""The log in a PostgreSQL database, which any number of nodes write to and follow."""
