"""What judges the learners judges fairly."""
