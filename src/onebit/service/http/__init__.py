"""The HTTP interface of the service: authentication, parsing of requests, routing and responses."""
