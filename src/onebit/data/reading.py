"""How a table is to be read: which column is the label, and what the others are."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from onebit.data.texts import Ngrams
from onebit.errors import InputError, brief


@dataclass(frozen=True)
class Reading:
    """What a user said of the columns of a table, and of how its texts become numbers."""

    label: str | None = None
    text: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    ngrams: Ngrams | None = None
    vectorizer: Any = None

    @classmethod
    def of(
        cls,
        label: str | None = None,
        text: bool | Sequence[str] = (),
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
        drop: Sequence[str] = (),
        ngrams: object = None,
        vectorizer: Any = None,
    ) -> Reading:
        """From what a user gives; what cannot be is refused."""
        said = {"text": text, "categorical": categorical, "numeric": numeric, "drop": drop}
        for what, chosen in said.items():
            if isinstance(chosen, str):
                raise InputError(f"{what} is {brief(chosen)}, but must be a list of columns: [{brief(chosen)}]")
            if isinstance(chosen, bool):
                raise InputError(
                    f"{what} is {chosen}, which is for rows that are texts themselves; of a table it names columns: {what}=['body']"
                )
            if not isinstance(chosen, Sequence):
                raise InputError(f"{what} is {brief(chosen)}, but must be a list of columns")
        if vectorizer is not None and not callable(getattr(vectorizer, "transform", None)):
            raise InputError(
                f"vectorizer is {brief(vectorizer)}, but must have a method `transform` for a list of texts"
            )
        if vectorizer is not None and ngrams is not None:
            raise InputError("a vectorizer cuts texts in its own way: give either that, or ngrams")
        chosen = {what: tuple(columns) for what, columns in said.items()}
        return cls(label, **chosen, ngrams=Ngrams.read(ngrams), vectorizer=vectorizer)

    @property
    def given(self) -> str | None:
        """The first thing that was said, by its name; None where nothing was."""
        return next((one.name for one in fields(self) if getattr(self, one.name) not in (None, ())), None)

    def described(self) -> dict[str, Any]:
        """What was said as plain values; text, and what came with it, only where it was said."""
        said: dict[str, Any] = {
            "label": self.label,
            "categorical": list(self.categorical),
            "drop": list(self.drop),
        }
        if self.text:
            said["text"] = list(self.text)
        if self.numeric:
            said["numeric"] = list(self.numeric)
        if self.ngrams is not None:
            said["ngrams"] = str(self.ngrams)
        if self.vectorizer is not None:
            said["vectorizer"] = _mark(self.vectorizer)
        return said


def _mark(vectorizer: Any) -> str:
    """A hash by which vectorizers are told apart."""
    try:
        content = pickle.dumps(vectorizer)
    except Exception as error:  # whatever a class of the user's raises
        raise InputError(
            f"the vectorizer cannot be pickled, so that its results cannot be told from those of another: {error}"
        ) from None
    return hashlib.blake2b(content, digest_size=12).hexdigest()
