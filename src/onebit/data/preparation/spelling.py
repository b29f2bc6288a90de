"""The names of the steps, and the one way to spell each, which is part of a run's identity."""

from __future__ import annotations

from collections.abc import Iterable

from onebit.errors import InputError, brief, nearest

STEPS = {
    "scale": "every value divided by the largest absolute value of the whole table",
    "standard": "each column minus its mean, over its standard deviation; constant columns become 0; not for sparse rows",
    "unit-norm": "each row divided by its Euclidean length; rows of zeros stay",
    "binary": "every value that is not 0 becomes 1",
    "tf-idf": "each count tf becomes (1 + ln tf) ln(N / df), where df of the N rows have its column; unit-norm makes it cosine",
    "rare:SHARE": "only the columns that are not 0 in at most SHARE of the rows, as in rare:0.01",
    "bias": "one more column, the last, of ones",
    "unit-ball": "every row divided by the length of the longest one",
    "fourier:COUNT:GAMMA": "COUNT random Fourier features, whose dot products are near those of the kernel rbf:GAMMA; for dense rows",
    "taylor:DEGREE": "the features of the rational kernel up to this degree, for few columns and ||x|| <= 1; for dense rows",
}
NAMES = tuple(name.partition(":")[0] for name in STEPS)

MOST_COLUMNS = 20_000  # that a step makes


def steps_of(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """The steps in a list or between commas, spelt in the one way that names a run.

    >>> steps_of("rare:.01, tf-idf, unit-norm")
    ('rare:0.01', 'tf-idf', 'unit-norm')
    """
    if given is None:
        return ()
    parts = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for part in parts:
        if not isinstance(part, str):
            raise InputError(f"a step of the preparation is {brief(part)}, but must be a string such as 'unit-norm'")
    if not "".join(parts).strip():
        return ()
    steps = tuple(_spelt(step.strip()) for part in parts for step in part.split(","))
    names = [step.partition(":")[0] for step in steps]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise InputError(f"the preparation has {name} twice, but each step must be there only once")
    return steps


def _spelt(step: str) -> str:
    name, colon, parameter = step.partition(":")
    if not name:
        raise InputError(f"the preparation has an empty step; {nearest(name, STEPS)}")
    if name not in NAMES:
        raise InputError(f"there is no step {brief(name)} in a preparation; {nearest(name, NAMES)}")
    if name in _SPELT:
        return f"{name}:{_SPELT[name](step, parameter)}"
    if colon:
        raise InputError(f"the step {brief(step)} has a parameter, but {name} takes none")
    return name


def _share(step: str, parameter: str) -> str:
    try:
        share = float(parameter)
    except ValueError:
        raise InputError(f"the step {brief(step)} must have a share of the rows, as in rare:0.01") from None
    if not 0.0 < share <= 1.0:
        raise InputError(f"the share of the step {brief(step)} must be above 0 and at most 1, as in rare:0.01")
    return repr(share).removesuffix(".0")


def _count_and_gamma(step: str, parameter: str) -> str:
    count, _, gamma = parameter.partition(":")
    try:
        number, width = int(count), float(gamma)
    except ValueError:
        number, width = 0, 0.0
    if not (1 <= number <= MOST_COLUMNS and 0.0 < width < 1e12):
        raise InputError(
            f"the step {brief(step)} must have from 1 to {MOST_COLUMNS:,} features and a gamma above 0, as in fourier:500:0.5"
        )
    return f"{number}:{width:g}"


def _degree(step: str, parameter: str) -> str:
    if not (parameter.isascii() and parameter.isdigit() and 1 <= int(parameter) <= 40):
        raise InputError(f"the step {brief(step)} must have a degree from 1 to 40, as in taylor:8")
    return str(int(parameter))


_SPELT = {"rare": _share, "fourier": _count_and_gamma, "taylor": _degree}
