"""What a user waits for apart from streams and steps: the start of a process, memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import Effort, Ended, Measurement, at_most, onebit_command, timed_python

from onebit.contract.rule import Rule
from onebit.rules import chosen_rules, rule_named

WITHOUT_SCIPY = (
    "import sys; sys.modules['scipy'] = None"  # as `pip install onebit` leaves it; Numba imports it if it can
)
DENSE_ROW, SPARSE_ROW = "[0.5] * 100", "{'a': 1.0}"


def startup(effort: Effort) -> list[Measurement]:
    """What a fresh process takes: to import, to list the learners, to use a rule cold and warm."""
    listing = quickest(lambda: onebit_command("learners"), effort.starts)
    return [*importing(effort), waited("onebit learners", listing, 0.6), *warm_uses(effort), *cold_uses(effort)]


def importing(effort: Effort) -> list[Measurement]:
    """`import onebit`, timed inside the process, and whether it loads the compiler."""
    code = (
        "import time; started = time.perf_counter(); import onebit; took = time.perf_counter() - started; "
        "import sys; print(took, int('numba' in sys.modules))"
    )
    outputs = [timed_python(code).output.split() for _ in range(effort.starts)]
    seconds = min(float(took) for took, _ in outputs)
    compilers = max(int(loaded) for _, loaded in outputs)
    return [
        Measurement("import onebit", seconds, "s", at_most(0.3)),
        Measurement("compilers loaded by it", compilers, "", at_most(0)),
    ]


def warm_uses(effort: Effort) -> list[Measurement]:
    """The first use of a rule in a process, the compiled code being there."""
    code = first_use(rule_named("banditron"))
    with TemporaryDirectory() as name:
        folder = Path(name)
        timed_python(code, folder)
        here = quickest(lambda: timed_python(code, folder), effort.starts)
        plain = quickest(lambda: timed_python(f"{WITHOUT_SCIPY}; {code}", folder), effort.starts)
    return [
        waited("first use of banditron, warm", here, 0.5),
        waited("first use of banditron, warm, without SciPy", plain, 0.5),
    ]


def cold_uses(effort: Effort) -> list[Measurement]:
    """The first use of a rule on a machine: of Banditron, and of the rule that takes longest to compile."""
    banditron = rule_named("banditron")
    if not effort.all_rules:
        return [waited("first use of banditron, cold", cold_use(banditron), 2.5)]
    cold = {rule: cold_use(rule) for rule in chosen_rules().values()}
    heaviest = max(cold, key=lambda rule: cold[rule].cpu)
    for _ in range(effort.starts - 1):
        for rule in (banditron, heaviest):
            cold[rule] = min(cold[rule], cold_use(rule))
    return [
        waited("first use of banditron, cold", cold[banditron], 2.5),
        waited(f"first use of {heaviest.name}, the heaviest rule, cold", cold[heaviest], 6.0),
    ]


def first_use(rule: Rule, row: str = DENSE_ROW) -> str:
    """Lines that make a learner and decide once."""
    return f"import onebit; onebit.{rule.title}(classes=10, **{dict(rule.examples[0])!r}).decide({row})"


def cold_use(rule: Rule, row: str = DENSE_ROW) -> Ended:
    """The first use of a rule where nothing has been compiled yet."""
    with TemporaryDirectory() as empty:
        return timed_python(first_use(rule, row), Path(empty))


def quickest(start: Callable[[], Ended], starts: int) -> Ended:
    """The quickest of several."""
    return min(start() for _ in range(starts))


def waited(name: str, ended: Ended, limit: float) -> Measurement:
    """Seconds on the clock; the CPU seconds beside them tell whether the machine was busy."""
    return Measurement(name, ended.wall, "s", at_most(limit), f"{ended.cpu:.2f} s of CPU")


PEAK = """
import re, numpy, onebit
X = numpy.random.default_rng(0).random(({rows}, 100), dtype=numpy.float32)
onebit.run("banditron", X, numpy.arange(len(X)) % 10, order="file", runs={runs}, threads={runs})
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def memory(effort: Effort) -> list[Measurement]:
    """Whether replicates share X: the peak of one run, and of four at the same time."""
    rows = effort.megabytes * 1_000_000 // 400
    peaks = {runs: int(timed_python(PEAK.format(rows=rows, runs=runs)).output) * 1024 / 1e6 for runs in (1, 4)}
    growth = (peaks[4] - peaks[1]) / 3
    return [
        Measurement("peak memory, 1 run", peaks[1], "MB", remark=f"X has {effort.megabytes} MB"),
        Measurement("peak memory, 4 runs at once", peaks[4], "MB"),
        Measurement(
            "growth for each further run", growth, "MB", at_most(effort.megabytes / 10), "a copy would be all of X"
        ),
    ]
