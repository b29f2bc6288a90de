"""What Python does with a space between runs of the loop, where most spaces do the same.

A space is a NamedTuple of arrays and numbers, which is all that compiled code sees of it. The classes here are mixed in.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

from numpy.typing import NDArray


class Space:
    """Arrays that learning changes are those that are written down."""

    __slots__ = ()
    SAVED: ClassVar[tuple[str, ...]] = ("weights", "scale")
    KEEPS_ROWS: ClassVar[bool] = False  # whether rows, or what is made of few of them, are in what is written down

    if TYPE_CHECKING:  # each space has its own

        def fresh(self, heads: int, features: int) -> Self:
            """One like this with so many heads and features, in which nothing has been learnt."""

    def grown(self, heads: int, features: int) -> Self:
        """A copy with room for more heads and features; the new ones know nothing."""
        made = self.fresh(heads, features)
        for name in self.SAVED:
            array = getattr(self, name)
            getattr(made, name)[tuple(map(slice, array.shape))] = array
        return made

    def arrays(self, features: int | None) -> dict[str, NDArray[Any]]:
        """What is written into a file: of the first so many features, where they may be more than are used."""
        return {name: getattr(self, name).copy() for name in self.SAVED}

    def loaded(self, arrays: dict[str, NDArray[Any]]) -> Self:
        """Take up what `arrays` gave, where nothing has been learnt yet and there is room enough."""
        for name, array in arrays.items():
            attrgetter(name)(self)[: len(array)] = array  # the name may have a dot: an array of a part
        return self

    def kept_of(self, rows: Any) -> Any:
        """What learning from these rows may change, for `restored`."""
        return self.arrays(None)

    def restored(self, kept: Any) -> Self:
        """Undo what was learnt since."""
        return self.loaded(kept)
