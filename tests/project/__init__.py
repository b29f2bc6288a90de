"""What others expect of a repository."""
