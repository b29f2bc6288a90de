"""What /readyz warns of: tasks that are served, and something of them is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onebit.serve.readiness import ReadinessWarning
from onebit.serve.served_task import ServedTask

FAILED_SNAPSHOTS = 3  # in a row, of which it warns


def task_warnings(tasks: Mapping[str, ServedTask]) -> Iterator[ReadinessWarning]:
    """Of snapshots that could not be written, and of revisions that are not known yet."""
    for name, served in tasks.items():
        failed, why = served.follower.failed_in_a_row, served.follower.snapshot_error
        if failed >= FAILED_SNAPSHOTS:
            sentence = f"the last {failed} snapshots of task {name!r} could not be written ({why}); nothing is lost, "
            yield ReadinessWarning(f"{sentence}but the next start takes longer", name)
    for name, served in tasks.items():
        if served.follower.revising_error is not None:
            yield ReadinessWarning(
                f"the learner of task {name!r} does not know yet what was revised ({served.follower.revising_error}); it is "
                "tried again, and nothing is lost",
                name,
            )
