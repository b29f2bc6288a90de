"""The loop that joins rules and spaces, compiled once for each pair and cached; and its GPU version."""
