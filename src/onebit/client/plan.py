"""The rules for sending a request again: in which cases, and after how long.

Nothing is sent here. A call is a generator that yields requests and receives the outcomes, so that the
blocking and the asynchronous client go through the same steps.
"""

from __future__ import annotations

import email.utils
import json
import random
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar

from onebit.client.errors import ServiceError, UnreachableError

FIRST_WAIT_S = 0.5  # longest wait after the first failure; it doubles each time
LONGEST_WAIT_S = 10.0
COMPILING_S = 120.0  # how long the service may take if it compiles a learner first
MOST_PATIENCE_S = 60.0  # give up if the service asks to wait longer

UNDONE = frozenset({408, 429, 503})  # the request was certainly not carried out
DOUBTFUL = frozenset({502, 504})  # a proxy gave up, or the service ended: the request may have been carried out

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A request to send after a pause.

    The reply may take `patience_s`, if that is longer than the usual timeout of the client.
    """

    method: str
    path: str
    body: bytes | None = None
    wait_s: float = 0.0
    patience_s: float = 0.0


@dataclass(frozen=True)
class Reply:
    """A reply of the service."""

    status: int
    content: bytes
    retry_after: str | None = None
    location: str | None = None

    @property
    def good(self) -> bool:
        """True if the request succeeded."""
        return self.status < HTTPStatus.MULTIPLE_CHOICES

    @cached_property
    def json(self) -> Any:
        """The content as plain values; raises ValueError if it is not JSON."""
        return json.loads(self.content)


@dataclass(frozen=True)
class NoReply:
    """A failed attempt without a complete reply; if `doubtful`, the service may have acted nevertheless."""

    reason: str
    doubtful: bool


Steps = Generator[Request, Reply | NoReply, T]


def send_repeatedly(request: Request, attempts: int, *, repeatable: bool = True) -> Steps[tuple[Reply, bool]]:
    """Send a request until there is a reply; return it, and whether an earlier attempt may have succeeded.

    A request that is not `repeatable` is sent again only if it has certainly not been carried out.
    """
    doubt = False
    for attempt in range(1, attempts + 1):
        outcome = _check_complete((yield request))
        if isinstance(outcome, Reply) and outcome.status not in UNDONE | DOUBTFUL:
            return outcome, doubt
        doubtful = outcome.doubtful if isinstance(outcome, NoReply) else outcome.status in DOUBTFUL
        wait_s = draw_wait(attempt, outcome)
        if attempt == attempts or (doubtful and not repeatable) or wait_s > MOST_PATIENCE_S:
            ending = f" (tried {attempt} times)" if attempt > 1 else ""
            ending += "; it is unknown whether this was done" if doubtful and not repeatable else ""
            raise build_error(outcome, ending)
        doubt = doubt or doubtful
        request = replace(request, wait_s=wait_s)
    raise AssertionError("there is at least one attempt")


def draw_wait(attempt: int, outcome: Reply | NoReply) -> float:
    """Return how many seconds to wait before the next attempt.

    They are drawn uniformly up to a bound that doubles each time, but are no less than the service asks for.
    """
    drawn = random.uniform(0.0, min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (attempt - 1)))
    requested_s = _parse_retry_after(outcome.retry_after) if isinstance(outcome, Reply) and outcome.retry_after else 0.0
    return max(drawn, requested_s)


def build_error(outcome: Reply | NoReply, ending: str = "") -> ServiceError:
    """Return the error for a failed request, with the message of the service if it has sent one."""
    if isinstance(outcome, NoReply):
        return UnreachableError(f"{outcome.reason}{ending}", status=None, code="unreachable")
    try:
        error = outcome.json["error"]
        message, code, field = error["message"], error["code"], error["field"]
    except (ValueError, TypeError, KeyError):
        redirect = f", a redirect to {outcome.location}," if outcome.location else ""
        message = f"the reply {_describe_status(outcome.status)}{redirect} did not come from the service itself"
        code, field = "unexpected", None
    return ServiceError(f"{message}{ending}", status=outcome.status, code=code, field=field)


def _check_complete(outcome: Reply | NoReply) -> Reply | NoReply:
    """Return the outcome, or `NoReply` if a good reply is not complete JSON."""
    if isinstance(outcome, Reply) and outcome.good:
        try:
            _ = outcome.json
        except ValueError:
            return NoReply("the reply was cut short, or does not come from the service", doubtful=True)
    return outcome


def _parse_retry_after(retry_after: str) -> float:
    """Return the seconds of a Retry-After header, which holds a number or a date."""
    try:
        return float(retry_after)
    except ValueError:
        pass
    try:
        return email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
    except ValueError:
        return 0.0


def _describe_status(status: int) -> str:
    try:
        return f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return str(status)
