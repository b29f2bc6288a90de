"""Numba types for spaces that compiled code receives by reference.

To Numba a named tuple is a value: a call passes every field of it, and seven numbers for each array. The space of
`auto` has 700 numbers, and copying them from call to call was most of the work of compiling. Here a space is a
pointer to its fields, and so is each named tuple within it. Fields are read where they are used; nothing writes them
while a loop runs, and the compiler is told so.
"""

from __future__ import annotations

import hashlib
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.core.types import BaseNamedTuple, Type  # type: ignore[attr-defined]
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, lower_getattr_generic, models, register_model


class Reference(Type):
    """The type of a named tuple that is passed as a pointer to its fields."""

    def __init__(self, value: Any) -> None:
        self.value = value  # the type of the named tuple itself
        self.instance_class = value.instance_class
        # Function names include those of types, and the full name is thousands of characters long.
        mark = hashlib.sha256(str(value).encode()).hexdigest()[:12]
        super().__init__(f"{self.instance_class.__name__}Reference{mark}")

    @property
    def key(self) -> Any:
        """The value that distinguishes this type from others."""
        return self.value

    def __hash__(self) -> int:
        """Return a hash that does not visit hundreds of fields; types of one name are one type."""
        return hash(self.name)

    def field(self, name: str) -> Any:
        """Return the type of a field, which is a reference if the field is a named tuple."""
        kind = self.value.types[self.value.fields.index(name)] if hasattr(self.value, "types") else self.value.dtype
        return Reference(kind) if isinstance(kind, BaseNamedTuple) else kind


@register_model(Reference)
class ReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
    """The data model of a reference: an address."""

    def __init__(self, manager: Any, kind: Reference) -> None:
        super().__init__(manager, kind, manager.lookup(kind.value).get_value_type().as_pointer())

    def from_argument(self, builder: Any, value: Any) -> Any:
        """Declare that nothing changes an argument, so fields are not read again after every write."""
        if isinstance(value, ir.Argument):
            value.add_attribute("noalias")
        return value


@infer_getattr
class ReferenceFields(AttributeTemplate):  # type: ignore[misc]
    """Numba typing template that resolves the type of a reference's field."""

    key = Reference

    def generic_resolve(self, kind: Reference, name: str) -> Any:
        """Return the type of a field, or None if there is no such field."""
        return kind.field(name) if name in kind.value.fields else None


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _read(context: Any, builder: Any, kind: Reference, address: Any, name: str) -> Any:
    """Return the value of a field."""
    place = cgutils.gep_inbounds(builder, address, 0, kind.value.fields.index(name))
    field = kind.field(name)
    if isinstance(field, Reference):
        return place
    return impl_ret_borrowed(context, builder, field, builder.load(place))
