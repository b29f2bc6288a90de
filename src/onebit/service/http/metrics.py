"""What Prometheus reads: requests are counted here, and all else is asked of the service when somebody looks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.registry import Collector

from onebit.learner.model_file import platform_info
from onebit.service.errors import TaskQuarantinedError
from onebit.service.http.guard import Connections
from onebit.service.http.request import RequestContext

if TYPE_CHECKING:
    from onebit.service.service import Service

BOUNDS_S = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 4.0, 8.0)
WINDOW = 1000  # feedbacks of the rates

__all__ = ["CONTENT_TYPE", "Metrics", "Requests", "build_info"]


def build_info() -> dict[str, str]:
    """Return what the service runs on, as `replies.Version` has it."""
    here = platform_info()
    return {"version": here["onebit"], **{name: here[name] for name in ("python", "numba", "numpy", "cpu")}}


class Requests:
    """How long requests took, by method, route and status. Counting one takes half a microsecond."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], list[int]] = {}
        self._sums: dict[tuple[str, str, int], float] = {}

    def observe(self, context: RequestContext) -> None:
        """Count a request that was answered."""
        seconds = perf_counter() - context.started
        key = (context.method, context.route, context.status)
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = [0] * (len(BOUNDS_S) + 1)
            self._sums[key] = 0.0
        counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sums[key] += seconds

    def metric(self) -> HistogramMetricFamily:
        """Return all of them as a histogram."""
        made = HistogramMetricFamily(
            "onebit_request_seconds",
            "From the head of a request to the end of its answer.",
            labels=["method", "route", "status"],
        )
        for key, counts in list(self._counts.items()):
            made.add_metric([str(part) for part in key], _buckets(BOUNDS_S, counts), self._sums[key])
        return made


class Metrics(Collector):
    """The collector of a service for Prometheus."""

    def __init__(self, service: Service, requests: Requests, connections: Connections) -> None:
        self._service = service
        self._requests = requests
        self._connections = connections
        self._registry = CollectorRegistry()  # nothing global: two services in one process count apart
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        yield InfoMetricFamily("onebit_build", "What the service runs on.", build_info())
        yield self._requests.metric()
        yield GaugeMetricFamily("onebit_connections", "Connections that are open.", value=len(self._connections.open))
        yield CounterMetricFamily(
            "onebit_connections_refused", "Connections beyond the most at once.", value=self._connections.refused
        )
        yield from self._tasks()
        gauges = self._service.gauges()
        yield GaugeMetricFamily("onebit_log_position", "The last row of the log.", value=gauges["position"])
        yield GaugeMetricFamily(
            "onebit_log_lag_seconds",
            "For how long this node has not heard where a log ends that it shares; 0 where it is alone.",
            value=gauges["lag_s"],
        )
        yield SummaryMetricFamily(
            "onebit_commit_seconds",
            "What writing to the disk took.",
            count_value=gauges["transactions"],
            sum_value=gauges["commit_seconds"],
        )
        ages = GaugeMetricFamily(
            "onebit_snapshot_age_seconds", "Since the last snapshot of a task, or since it is served.", labels=["task"]
        )
        failed = CounterMetricFamily(
            "onebit_snapshot_failures", "Snapshots that could not be written.", labels=["task"]
        )
        for task, of_task in gauges["tasks"].items():
            ages.add_metric([task], of_task["snapshot_age_s"])
            failed.add_metric([task], of_task["snapshots_failed"])
        yield from (ages, failed)
        aside = GaugeMetricFamily("onebit_quarantined_tasks", "Tasks that are quarantined.", labels=["task"])
        for one in self._service.quarantined():
            aside.add_metric([one["name"]], 1)
        yield aside
        state = self._service.readiness(lambda _: True)
        yield GaugeMetricFamily("onebit_ready", "Whether /readyz says ready.", value=state["ready"])
        yield GaugeMetricFamily("onebit_warnings", "Warnings in /readyz.", value=len(state["warnings"]))
        yield GaugeMetricFamily(
            "onebit_clock_ahead_seconds",
            "By how much the times of the log are ahead of the machine's clock.",
            value=gauges["clock_ahead_s"],
        )

    def _tasks(self) -> Iterator[Metric]:
        decisions = CounterMetricFamily("onebit_decisions", "Decisions made.", labels=["task"])
        feedback = CounterMetricFamily("onebit_feedback", "Feedbacks heard.", labels=["task", "status"])
        right = CounterMetricFamily("onebit_right", "Feedbacks that said right.", labels=["task"])
        refused = CounterMetricFamily("onebit_refused", "Feedbacks that could not be learnt from.", labels=["task"])
        rate = GaugeMetricFamily(
            "onebit_right_ratio", f"The share of right in the last {WINDOW} feedbacks.", labels=["task"]
        )
        drift = CounterMetricFamily(
            "onebit_drift_alarms", "How often a task began to err more than it used to.", labels=["task"]
        )
        queue = GaugeMetricFamily("onebit_queue_events", "Rows of the log that are not learnt yet.", labels=["task"])
        truths = CounterMetricFamily("onebit_truths", "Feedbacks that named the right class.", labels=["task"])
        reward = GaugeMetricFamily(
            "onebit_mean_reward", f"The mean reward in the last {WINDOW} feedbacks.", labels=["task"]
        )
        asked = CounterMetricFamily("onebit_asked_sure", "Decisions that were asked to be sure.", labels=["task"])
        sure = CounterMetricFamily("onebit_sure", "Those that were.", labels=["task"])
        sure_error = GaugeMetricFamily(
            "onebit_sure_error_ratio", "The error of sure decisions, over all.", labels=["task"]
        )
        overshoot = GaugeMetricFamily(
            "onebit_risk_overshoot_ratio", "By how much that is above the risk of the task at least.", labels=["task"]
        )
        own_error = GaugeMetricFamily(
            "onebit_shadow_error_ratio",
            f"The learner's own error, estimated from the last {WINDOW} rounds in which something else was shown, and the ends of its 95 % interval.",
            labels=["task", "end"],
        )
        delays = HistogramMetricFamily(
            "onebit_feedback_delay_seconds", "From a decision to its feedback.", labels=["task"]
        )
        for task in self._service.task_names():
            try:
                stats = self._service.summary(task, WINDOW)
            except TaskQuarantinedError:  # at this moment
                continue
            decisions.add_metric([task], stats["decisions"])
            feedback.add_metric([task, "accepted"], stats["feedback"] - stats["silences"])
            feedback.add_metric([task, "silence"], stats["silences"])
            feedback.add_metric([task, "late"], stats["late"])
            right.add_metric([task], stats["right"])
            refused.add_metric([task], stats["refused"])
            if stats["window"]["error"] is not None:
                rate.add_metric([task], 1.0 - stats["window"]["error"])
                reward.add_metric([task], stats["window"]["mean_reward"])
            truths.add_metric([task], stats["truths"])
            certainty = stats["certainty"]
            asked.add_metric([task], certainty["asked"])
            sure.add_metric([task], certainty["sure"])
            if certainty["error"] is not None:
                sure_error.add_metric([task], certainty["error"])
            if certainty["overshoot"] is not None:
                overshoot.add_metric([task], certainty["overshoot"])
            if stats["shadow"] is not None:
                for end in ("error", "low", "high"):
                    if stats["shadow"][end] is not None:
                        own_error.add_metric([task, end], stats["shadow"][end])
            drift.add_metric([task], stats["drift"]["count"])
            queue.add_metric([task], stats["queue"])
            delays.add_metric([task], _buckets(stats["delays"]["bounds_s"], stats["delays"]["counts"]), None)
        certainties = (asked, sure, sure_error, overshoot)
        return iter(
            (decisions, feedback, right, refused, rate, truths, reward, drift, *certainties, own_error, queue, delays)
        )


def _buckets(bounds: list[float] | tuple[float, ...], counts: list[int]) -> list[tuple[str, float]]:
    """Return cumulative counts by upper bound, as Prometheus has them."""
    names = [*(str(float(bound)) for bound in bounds), "+Inf"]
    return list(zip(names, accumulate(counts), strict=True))
