"""The service: decide over HTTP, hear right or wrong, learn, and lose nothing."""
