"""The classes of a learner: names on the outside, indices from 0 up on the inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from onebit.contract.validation import ClassName, checked_classes, join_names
from onebit.errors import InputError, OnebitError, brief


def to_class_name(label: object) -> ClassName:
    """Return the class name for a label of another library.

    Strings are unchanged and whole numbers become ints; other labels become strings, as Python prints them.

    >>> [to_class_name(label) for label in ("no", np.int64(3), True, 2.0, 0.5)]
    ['no', 3, 'True', 2, '0.5']
    """
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, float) and plain.is_integer():
        return int(plain)
    if isinstance(plain, bool) or not isinstance(plain, str | int):
        return str(plain)
    return str(plain) if isinstance(plain, str) else plain  # converts subclasses of str


class Classes:
    """The class names of a learner and their indices.

    >>> Classes(["no", "yes"]).index("yes")
    1
    """

    __slots__ = ("_index", "names", "retired")

    def __init__(self, classes: int | Iterable[ClassName], retired: Iterable[int] = ()) -> None:
        self.names = checked_classes(classes)
        self.retired = frozenset(retired)  # indices of classes that are never played again
        self._index = {name: index for index, name in enumerate(self.names)}

    def index(self, name: ClassName) -> int:
        try:
            if not isinstance(name, bool):  # True == 1, but it must not name class 1
                return self._index[name]
        except (KeyError, TypeError):
            pass
        raise InputError(f"there is no class {brief(name)}; the classes are {join_names(self.names)}")

    def with_class(self, name: ClassName) -> Classes:
        """Return a copy with one more class."""
        return Classes((*self.names, name), self.retired)

    def retire(self, name: ClassName) -> None:
        """Retire a class so that it is never played again.

        Raise InputError if fewer than two classes would remain.
        """
        index = self.index(name)
        if index not in self.retired and len(self.names) - len(self.retired) <= 2:
            raise InputError(f"class {brief(name)} cannot be removed: at least two classes must remain")
        self.retired |= {index}

    def find_candidates(self, among: Iterable[ClassName] | None) -> list[int] | None:
        """Return the indices of the playable classes in ascending order; None if all are playable."""
        if among is None:
            return sorted(set(range(len(self.names))) - self.retired) if self.retired else None
        if isinstance(among, str | bytes | Mapping) or not isinstance(among, Iterable):
            raise InputError(f"among is {brief(among)}, but must be a list of classes")
        names = among.tolist() if isinstance(among, np.ndarray) else among
        indices = sorted({self.index(name) for name in names} - self.retired)
        if not indices:
            raise InputError("among has no class that can be played, but must have at least one")
        return None if len(indices) == len(self.names) else indices

    def indices(self, y: Iterable[ClassName]) -> NDArray[np.int64]:
        """Return the class index of each label; the error for an unknown label names its row."""
        if isinstance(y, str) or not isinstance(y, Iterable):
            raise InputError(f"the labels are {brief(y)}, but must be a list of class names")
        names = y.tolist() if isinstance(y, np.ndarray) else list(y)
        indices = np.empty(len(names), dtype=np.int64)
        for row, name in enumerate(names):
            try:
                indices[row] = self.index(name)
            except OnebitError:
                raise InputError(
                    f"row {row} has the label {brief(name)}, but the classes are {join_names(self.names)}"
                ) from None
        return indices
