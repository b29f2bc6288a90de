"""Who is told when a task drifts: the log on stderr, and the webhook where there is one."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from onebit.serve.served_task import ServedTask
from onebit.serve.webhook import Webhook

LOG = logging.getLogger("onebit.serve")
KIND = "drift"


class DriftWatch:
    """Looks for new alarms in the statistics of the tasks."""

    def __init__(self, webhook: Webhook | None) -> None:
        self.webhook = webhook
        self._seen: dict[int, int] = {}  # of each task, the row of the last alarm

    def start(self, tasks: Iterable[ServedTask]) -> None:
        """What is there now is no news; but to the webhook it is, unless it was told before."""
        self._seen = {one.info.number: _last(one) for one in tasks}

    @property
    def sends(self) -> bool | None:
        """Whether this node sends to the webhook; None where there is none."""
        return None if self.webhook is None else self.webhook.sends

    def keep(self, keeps: bool) -> None:
        """Send to the webhook, where this is the node that keeps the log, and not where it is not any more. It may wait for the disk."""
        if self.webhook is None or keeps is self.webhook.sends:
            return
        if keeps:
            self.webhook.start(self._seen)
        else:
            self.webhook.stop()

    def stop(self) -> None:
        """Look no more."""
        self.keep(False)

    def look(self, task: ServedTask) -> None:
        """Tell of what is new in a task."""
        number, name = task.info.number, task.info.name
        for alarm in task.follower.statistics.drift.alarms:
            figures = {field: value for field, value in alarm._asdict().items() if field != "time"}
            if alarm.seq > self._seen.get(number, 0):
                self._seen[number] = alarm.seq
                LOG.warning(
                    f"task {name!r} errs more than it used to: {alarm.error:.1%} of the last {alarm.since:,} feedbacks, "
                    f"and {alarm.usual:.1%} at most before",
                    extra={"event": "drift", "task": name, **figures},
                )
            if self.webhook is not None:
                self.webhook.offer(number, alarm.seq, KIND, alarm.time, {"task": name, **figures})


def _last(task: ServedTask) -> int:
    return max((alarm.seq for alarm in task.follower.statistics.drift.alarms), default=0)
