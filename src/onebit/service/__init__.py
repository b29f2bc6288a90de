"""The service: makes decisions over HTTP, takes feedback, learns from it, and loses nothing."""
