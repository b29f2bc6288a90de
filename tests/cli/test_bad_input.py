"""Bad input is one line on stderr and exit code 2, and the line names what is wrong, not something beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import onebit
from tests.cli.call import Call

TABLE = "a,b,label\n1,2,x\n3,4,y\n5,6,x\n2,2,y\n"
BAD = {
    "a folder of data": (["run", "folder"], "onebit: folder is a folder, but must be a file: .csv, .parquet"),
    "this folder": (["run", "bpa", "."], "onebit: . is a folder, but must be a file"),
    "a folder with the ending of a file": (["compare", "folder.csv"], "onebit: folder.csv is a folder, but"),
    "no name": (["run", ""], "onebit: the name of the data is empty: give that of a data set, or the path of a file"),
    "an address": (["run", "https://host/a.csv"], "onebit: 'https://host/a.csv' is an address: download the file"),
    "more rounds than can be counted": (
        ["run", "bpa", "table.csv", "--rounds", "1e30"],
        "onebit: rounds is 1,000,000,000,000,000,019,884,624,838,656, but must be at most 1,000,000,000,000,000",
    ),
    "more runs than there are records for": (
        ["compare", "table.csv", "--learners", "bpa", "--runs", "1e9"],
        "onebit: runs is 1,000,000,000, but must be at most 1,000,000",
    ),
    "more fresh runs": (
        ["sweep", "bpa", "table.csv", "--grid", "exploration=0.1,0.2", "--fresh-runs", "1e9"],
        "onebit: fresh_runs is 1,000,000,000, but must be at most 1,000,000",
    ),
    "a label that is dropped": (
        ["run", "table.csv", "--drop", "label"],
        "onebit: the column 'label' of table.csv holds the label, so it cannot be listed as dropped\n",
    ),
    "no such column to drop": (
        ["run", "table.csv", "--drop", "zz"],
        "onebit: there is no column 'zz' in table.csv, given as dropped; known are: a, b, label\n",
    ),
    "a column twice": (
        ["run", "table.csv", "--text", "a", "--drop", "a"],
        "onebit: the column 'a' of table.csv is listed twice, the second time as dropped\n",
    ),
    "no such label": (
        ["run", "table.csv", "--label", "zz"],
        "onebit: there is no column 'zz' in table.csv, given as the label; known are: a, b, label\n",
    ),
    "one of many columns": (["run", "wide.csv", "--drop", "zz"], ", c048, c049 and 951 more\n"),
    "results in a file": (
        ["compare", "table.csv", "--out", "table.csv"],
        "onebit: the results cannot be written to table.csv: it is a file, not a folder\n",
    ),
    "tokens of no folder": (["token", "list", "--data", "other"], "onebit: there is no other, so there are no tokens"),
    "a token of no folder": (["token", "revoke", "x", "--data", "other"], "onebit: there is no other, so there are no"),
    "no folder to check": (["check", "other"], "onebit: other is not a folder of `onebit serve`: it does not exist\n"),
    "a file to check": (["check", "table.csv"], "onebit: table.csv is not a folder of `onebit serve`: it is a file\n"),
    "an empty folder to check": (["check", "folder"], "onebit: folder is not a folder of `onebit serve`: there is no"),
    "no theorem": (
        ["bounds", "bpa", "table.csv"],
        "onebit: the papers give no bound for bpa; they give bounds for bandit-perceptron",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_named(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "wide.csv").write_text(",".join([f"c{column:03}" for column in range(1000)] + ["label"]) + "\n")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = call(*arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert words in err
    assert sorted(tmp_path.rglob("*")) == before, "nothing is made or changed"


def test_a_copy_onto_itself_is_refused(call: Call, tmp_path: Path) -> None:
    """Another service was said to use the folder."""
    folder = tmp_path / "service"
    onebit.open(folder, "fruit", classes=["apple", "pear"], features="text", learner="bpa").close()
    before = (folder / "onebit.db").read_bytes()
    code, out, err = call("copy", str(folder), str(tmp_path / "service" / ".." / "service"))
    assert (code, out) == (2, "")
    assert err.endswith("service is the log to be copied: give another place for the copy\n")
    assert (folder / "onebit.db").read_bytes() == before
