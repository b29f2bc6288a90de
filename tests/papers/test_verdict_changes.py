"""`tools/verdicts.py`: which verdicts changed from one page to the next, and why."""

from __future__ import annotations

from tools.verdicts import changes

OLD = """## mine2026

### Figure 7: two

| data | what | published | measured | verdict |
|---|---|---:|---:|---|
| plane | A | 76.7 | 76.72 ± 0.36 | reproduced |
| plane | B | 15.8 | 17.64 ± 1.65 | reproduced |
| plane | C | 15.8 | 18.64 ± 1.65 | differs [1] |
| plane | D | 5 | 39.90 ± 0.10 | differs |
| plane | E | 5 | 5.00 ± 0.10 | reproduced |
| plane | F | 5 | 5.00 ± 0.10 | reproduced |

1. Nobody knows.
"""
NEW = """## mine2026

### Figure 7: two

| data | what | published | measured | verdict |
|---|---|---:|---:|---|
| plane | A | 76.7 | 76.72 ± 0.36 | fitted [1] |
| plane | B | 15.8 | 17.64 ± 1.65 | undecided |
| plane | C | 15.8 | 18.64 ± 1.65 | undecided [2] |
| plane | D | 5 | 5.70 ± 0.10 | reproduced |
| plane | E | 5 | 5.00 ± 0.10 | reproduced |
| plane | G | 5 | 5.00 ± 0.10 | reproduced |

1. The margin was chosen here.
2. Nobody knows.

### All that the paper states

| result | what it says | item, or why there is none |
|---|---|---|
| Theorem 1 | so | figure7: 3 reproduced |
"""


def test_every_changed_verdict_has_its_reason() -> None:
    lines = [line.split(" | ") for line in changes(OLD, NEW)[2:-2]]
    assert [(cells[3], cells[6], cells[7], cells[8].removesuffix(" |")) for cells in lines] == [
        ("A", "reproduced", "fitted", "The margin was chosen here."),
        ("B", "reproduced", "undecided", "only a part of the interval is within the tolerance"),
        ("C", "differs", "undecided", "a part of the interval is within the tolerance. Nobody knows."),
        ("D", "differs", "reproduced", "measured anew: it was 39.90 ± 0.10"),
    ]
    assert changes(OLD, NEW)[-1] == "4 verdicts changed, 1 are new, 1 are gone, of 6."
