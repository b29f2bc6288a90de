"""Prometheus metrics: durations of requests, and values read from the service at each scrape."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import reduce
from itertools import accumulate
from operator import getitem
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import HistogramMetricFamily, InfoMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from onebit.learner.model_file import platform_info
from onebit.service.errors import TaskQuarantinedError
from onebit.service.http.guard import Connections

if TYPE_CHECKING:
    from onebit.service.service import Service

BOUNDS_S = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 4.0, 8.0)
WINDOW = 1000  # feedbacks over which ratios are computed


def build_info() -> dict[str, str]:
    """Return the versions and the CPU in use, in the form of `replies.Version`."""
    platform = platform_info()
    return {"version": platform["onebit"], **{name: platform[name] for name in ("python", "numba", "numpy", "cpu")}}


TASK_METRICS = (  # type, name, help, and path of the value in the statistics of a task
    (Counter, "onebit_decisions", "Decisions made.", ("decisions",)),
    (Counter, "onebit_right", "Feedback that reported a right decision.", ("right",)),
    (Counter, "onebit_refused", "Feedback that could not be learnt from.", ("refused",)),
    (Counter, "onebit_truths", "Feedback that named the right class.", ("truths",)),
    (Gauge, "onebit_mean_reward", f"Mean reward over the last {WINDOW} feedbacks.", ("window", "mean_reward")),
    (Counter, "onebit_drift_alarms", "How often the error of a task rose beyond chance.", ("drift", "count")),
    (Gauge, "onebit_queue_events", "Rows of the log that are not learnt yet.", ("queue",)),
    (Counter, "onebit_asked_sure", "Decisions with a required confidence or risk.", ("certainty", "asked")),
    (Counter, "onebit_sure", "Decisions that met the required confidence or risk.", ("certainty", "sure")),
    (Gauge, "onebit_sure_error_ratio", "Error of all sure decisions with feedback.", ("certainty", "error")),
    (
        Gauge,
        "onebit_risk_overshoot_ratio",
        "Lower bound on how far that error exceeds the risk.",
        ("certainty", "overshoot"),
    ),
)


class Metrics(Collector):
    """The Prometheus collector of a service."""

    def __init__(self, service: Service, connections: Connections) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.request_seconds = Histogram(
            "onebit_request_seconds",
            "Time from the head of a request to the end of its reply.",
            ["method", "route", "status"],
            buckets=BOUNDS_S,
            registry=None,
        )
        self._service = service
        self._connections = connections
        self._registry = CollectorRegistry()  # not the global registry: two services in one process count separately
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def format_text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the service."""
        service, commits, now = self._service, self._service.commits, time.monotonic()
        state = self._service.readiness(lambda _: True)
        yield InfoMetricFamily("onebit_build", "Versions and CPU of the service.", build_info())
        yield from self.request_seconds.collect()
        yield Gauge("onebit_connections", "Open connections.", len(self._connections.open))
        yield Counter(
            "onebit_connections_refused", "Connections refused because of the limit.", self._connections.refused
        )
        yield from self._collect_statistics()
        yield Gauge("onebit_log_position", "Position of the last row of the log.", commits.last)
        yield Gauge(
            "onebit_log_lag_seconds",
            "Time since this node last read the end of the shared log; 0 if it has a log of its own.",
            service.store.lag_s,
        )
        yield SummaryMetricFamily(
            "onebit_commit_seconds",
            "Time to write rows to disk.",
            count_value=commits.transactions,
            sum_value=commits.seconds,
        )
        age = "Time since the last snapshot of a task, or since the start of serving it."
        followers = {task: served.follower for task, served in service.served.items()}
        ages = ((task, now - follower.snapshot_time) for task, follower in followers.items())
        yield _build_task_metric(Gauge, "onebit_snapshot_age_seconds", age, ages)
        failed = ((task, follower.snapshots_failed) for task, follower in followers.items())
        yield _build_task_metric(Counter, "onebit_snapshot_failures", "Snapshots that could not be written.", failed)
        quarantined = ((task["name"], 1) for task in self._service.quarantined())
        yield _build_task_metric(Gauge, "onebit_quarantined_tasks", "Tasks that are quarantined.", quarantined)
        yield Gauge("onebit_ready", "1 if /readyz says ready, otherwise 0.", state["ready"])
        yield Gauge("onebit_warnings", "Warnings in /readyz.", len(state["warnings"]))
        ahead = "How far the times in the log are ahead of the machine's clock."
        yield Gauge("onebit_clock_ahead_seconds", ahead, service.clock.ahead)

    def _collect_statistics(self) -> Iterator[Metric]:
        """Yield the metrics that come from the statistics of tasks."""
        statistics: dict[str, dict[str, Any]] = {}
        for task in self._service.task_names():
            with suppress(TaskQuarantinedError):  # quarantined since its name was listed
                statistics[task] = self._service.summary(task, WINDOW)
        for kind, name, meaning, path in TASK_METRICS:
            values = ((task, reduce(getitem, path, stats)) for task, stats in statistics.items())
            yield _build_task_metric(kind, name, meaning, values)
        right = Gauge(
            "onebit_right_ratio", f"Share of right decisions among the last {WINDOW} feedbacks.", labels=["task"]
        )
        feedback = Counter("onebit_feedback", "Feedback received.", labels=["task", "status"])
        shadow_error = Gauge(
            "onebit_shadow_error_ratio",
            f"Estimated error of the learner's own decisions in the last {WINDOW} rounds in which something else was shown, and its 95 % interval.",
            labels=["task", "end"],
        )
        delays = HistogramMetricFamily(
            "onebit_feedback_delay_seconds", "Time from a decision to its feedback.", labels=["task"]
        )
        for task, stats in statistics.items():
            feedback.add_metric([task, "accepted"], stats["feedback"] - stats["silences"])
            feedback.add_metric([task, "silence"], stats["silences"])
            feedback.add_metric([task, "late"], stats["late"])
            for end in ("error", "low", "high"):
                if stats["shadow"] is not None and stats["shadow"][end] is not None:
                    shadow_error.add_metric([task, end], stats["shadow"][end])
            if stats["window"]["error"] is not None:
                right.add_metric([task], 1.0 - stats["window"]["error"])
            delays.add_metric([task], _cumulate_buckets(stats["delays"]["bounds_s"], stats["delays"]["counts"]), None)
        yield from (right, feedback, shadow_error, delays)


def _build_task_metric(
    kind: type[Counter] | type[Gauge],
    name: str,
    meaning: str,
    values: Iterable[tuple[str, Any]],
) -> Metric:
    metric = kind(name, meaning, labels=["task"])
    for task, value in values:
        if value is not None:
            metric.add_metric([task], value)
    return metric


def _cumulate_buckets(bounds: list[float] | tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    """Return cumulative counts by upper bound, as Prometheus expects them."""
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(names, accumulate(counts), strict=True))
