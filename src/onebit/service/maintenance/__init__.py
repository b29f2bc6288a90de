"""Operations on a log as a whole: check, copy, export, archive, forget, and replay for off-policy evaluation."""
