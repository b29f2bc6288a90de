"""The log of the service, in either store."""
