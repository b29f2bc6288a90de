"""What a refusal looks like to a program: problem details, as RFC 9457 has them, with the code, the sentence and the field in `error`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from onebit.serve.errors import RequestError

CONTENT_TYPE = "application/problem+json"
KIND = "urn:onebit:error:{code}"


class ProblemError(BaseModel):
    """What is wrong: a code for machines, a sentence for people, and the field."""

    code: str
    message: str
    field: str | None = None


class Problem(BaseModel):
    """The one shape of all errors: problem details (RFC 9457). `detail` is the sentence of `error`, and `type` has its code."""

    type: str
    title: str
    status: int
    detail: str
    error: ProblemError


def problem_of(error: RequestError) -> dict[str, Any]:
    """An error in the one shape of all, as `Problem` has it."""
    return {
        "type": KIND.format(code=error.code),
        "title": title_of(type(error)),
        "status": error.status,
        "detail": error.message,
        "error": {"code": error.code, "message": error.message, "field": error.field},
    }


def title_of(kind: type[RequestError]) -> str:
    """What all errors of a kind have in common: the first sentence of what is said of it."""
    return (kind.__doc__ or "").partition(".")[0]
