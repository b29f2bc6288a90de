"""The serving core: deciding, hearing, committing and learning for the tasks of one log, without knowing who asks or which store keeps it."""
