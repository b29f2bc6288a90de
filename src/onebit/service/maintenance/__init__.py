"""Operations on a whole log: check, copy, export, archive, forget, and off-policy evaluation."""
