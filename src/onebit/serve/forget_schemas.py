"""What is sent to have decisions forgotten, and what is answered."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from onebit.serve.schemas import Identity, Number, Strict

MOST_IDS = 10_000


class Forget(Strict):
    """Which decisions are to be forgotten: those with some ids, or those made before a time, in seconds since 1970. With `unlearn` also what was learnt from them."""

    ids: Annotated[list[Identity], Field(min_length=1, max_length=MOST_IDS)] | None = None
    before: Number | None = None
    unlearn: bool = False


class Forgot(BaseModel):
    """How many decisions were forgotten; whether the learner kept or unlearnt them; and whether nothing of them is left in the files of the log."""

    forgotten: int
    learner: Literal["kept", "unlearnt"]
    erased: bool
