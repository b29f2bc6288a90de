"""The classes of a learner: names outside, numbers from 0 up inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, OnebitError, brief
from onebit.validation import ClassName, checked_classes, listed


def name_of(label: object) -> ClassName:
    """What a label of another library is called here: whole numbers and strings as they are, anything else as Python prints it.

    >>> name_of("no"), name_of(np.int64(3)), name_of(True), name_of(2.0), name_of(0.5)
    ('no', 3, 'True', 2, '0.5')
    """
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, float) and plain.is_integer():
        return int(plain)
    if isinstance(plain, bool) or not isinstance(plain, str | int):
        return str(plain)
    return str(plain) if isinstance(plain, str) else plain  # also of those who have a string class of their own


class Classes:
    """The names of the classes, and the number of each.

    >>> Classes(["no", "yes"]).index("yes")
    1
    """

    __slots__ = ("_index", "names")

    def __init__(self, classes: int | Iterable[ClassName]) -> None:
        self.names = checked_classes(classes)
        self._index = {name: index for index, name in enumerate(self.names)}

    def index(self, name: ClassName) -> int:
        """The number of a class."""
        try:
            if not isinstance(name, bool):  # True is 1, but it is not the name of class 1
                return self._index[name]
        except (KeyError, TypeError):
            pass
        raise InputError(f"there is no class {brief(name)}; the classes are {listed(self.names)}")

    def candidates(self, among: Iterable[ClassName] | None, retired: frozenset[int]) -> list[int] | None:
        """The numbers of the classes that can be played, in rising order; None where all can be."""
        if among is None:
            return sorted(set(range(len(self.names))) - retired) if retired else None
        if isinstance(among, str | bytes | Mapping) or not isinstance(among, Iterable):
            raise InputError(f"among is {brief(among)}, but must be a list of classes")
        given = among.tolist() if isinstance(among, np.ndarray) else among
        found = sorted({self.index(name) for name in given} - retired)
        if not found:
            raise InputError("among has no class that can be played, but must have one at least")
        return None if len(found) == len(self.names) else found

    def indices(self, y: Iterable[ClassName]) -> NDArray[np.int64]:
        """The numbers of many; an unknown one is refused with its row."""
        if isinstance(y, str) or not isinstance(y, Iterable):
            raise InputError(f"the labels are {brief(y)}, but must be a list of class names")
        names = y.tolist() if isinstance(y, np.ndarray) else list(y)
        indices = np.empty(len(names), dtype=np.int64)
        for row, name in enumerate(names):
            try:
                indices[row] = self.index(name)
            except OnebitError:
                raise InputError(
                    f"row {row} has the label {brief(name)}, but the classes are {listed(self.names)}"
                ) from None
        return indices
