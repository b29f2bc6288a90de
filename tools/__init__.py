"""What maintainers run by hand; nothing here is installed."""
