"""How a table is to be read: which column is the label, and what the others are."""

from __future__ import annotations

from collections.abc import Iterable
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
    rewards: tuple[str, ...] = ()
    candidates: str | None = None

    @classmethod
    def of(
        cls,
        label: str | None = None,
        text: Iterable[str] = (),
        categorical: Iterable[str] = (),
        numeric: Iterable[str] = (),
        drop: Iterable[str] = (),
        ngrams: object = None,
        vectorizer: Any = None,
        *,
        rewards: str | Iterable[str] | None = None,
        candidates: str | None = None,
    ) -> Reading:
        """From what a user gives; what cannot be is refused."""
        said = {"text": text, "categorical": categorical, "numeric": numeric, "drop": drop}
        for what, chosen in said.items():
            if isinstance(chosen, str):
                raise InputError(f"{what} is {brief(chosen)}, but must be a list of columns: [{brief(chosen)}]")
            if not isinstance(chosen, Iterable):
                raise InputError(f"{what} is {brief(chosen)}, but must be a list of columns")
        if vectorizer is not None and not callable(getattr(vectorizer, "transform", None)):
            raise InputError(
                f"vectorizer is {brief(vectorizer)}, but must have a method `transform` for a list of texts"
            )
        if vectorizer is not None and ngrams is not None:
            raise InputError("a vectorizer cuts texts in its own way: give either that, or ngrams")
        columns = {what: tuple(chosen) for what, chosen in said.items()}
        worth = () if rewards is None else (rewards,) if isinstance(rewards, str) else tuple(rewards)
        return cls(
            label, **columns, ngrams=Ngrams.read(ngrams), vectorizer=vectorizer, rewards=worth, candidates=candidates
        )

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
            said["vectorizer"] = True  # by its result: no object says all that it is
        if self.rewards:
            said["rewards"] = list(self.rewards)
        if self.candidates is not None:
            said["candidates"] = self.candidates
        return said
