"""A client for `onebit serve` that blocks (`Client`) or is awaited (`AsyncClient`).

    with onebit.client.Client("http://127.0.0.1:8000", token) as client:
        tickets = client.task("tickets")
        decided = tickets.decide("the printer is on fire")
        tickets.feedback(decided, right=True)

Every decision gets an id before it is sent, so that repeating a request does not make a second decision.
"""

from onebit.contract.installation import install_command
from onebit.errors import MissingExtraError

try:
    import httpx as _httpx  # noqa: F401 - report a missing dependency here
except ImportError:
    raise MissingExtraError(f"the client of the service needs HTTPX: {install_command('client')}") from None

from onebit.client.errors import ServiceError, UnreachableError
from onebit.client.operations import AsyncClient, AsyncTaskHandle, Client, TaskHandle
from onebit.service.replies import (
    DecisionReply,
    ExplanationReply,
    FeedbackReply,
    ForgetReply,
    LoggedDecision,
    QuarantinedTask,
    Readiness,
    Stats,
    Task,
    Version,
)

__all__ = [
    "AsyncClient",
    "AsyncTaskHandle",
    "Client",
    "DecisionReply",
    "ExplanationReply",
    "FeedbackReply",
    "ForgetReply",
    "LoggedDecision",
    "QuarantinedTask",
    "Readiness",
    "ServiceError",
    "Stats",
    "Task",
    "TaskHandle",
    "UnreachableError",
    "Version",
]
