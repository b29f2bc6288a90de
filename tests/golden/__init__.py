"""Files as each release wrote them."""

UNRELEASED: set[str] = set()  # rules that no release has had yet; the next one writes their files, and empties this
