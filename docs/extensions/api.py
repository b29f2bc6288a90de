"""The reference pages of Python: which names there are is read from the package, what they do from their docstrings, by autodoc."""

from __future__ import annotations

import dataclasses
import importlib
import inspect

from docs.extensions.tables import table

from onebit import HOMES
from onebit.cli.serve import OPTIONS, environment_variable
from onebit.learner.decision import Decision
from onebit.rules import registry
from onebit.service.settings import Settings

_FIELD = type(inspect.getattr_static(Decision, "label"))


def api_page(module: str, *names: str) -> str:
    """Directives for the public names of a module, or for these of them.

    >>> print(api_page("onebit.theory", "margin"))
    ```{eval-rst}
    .. autofunction:: onebit.theory.margin
    ```
    <BLANKLINE>
    """
    found = importlib.import_module(module)
    lines = ["```{eval-rst}"]
    for name in names or public_names(module):
        kind = getattr(found, name)
        if inspect.isclass(kind):
            lines += [f".. autoclass:: {module}.{name}"]
            lines += [f"   :members: {', '.join(members)}" for members in [_members(kind)] if members] + [""]
        elif inspect.isroutine(kind):
            lines += [f".. autofunction:: {module}.{name}", ""]
    return "\n".join([*lines[:-1], "```", ""])


def _members(kind: type) -> list[str]:
    """What a class has of its own, and from classes of this package: what comes from other libraries is documented there."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("onebit.")]
    return [
        name
        for name in dict.fromkeys(name for base in own for name in vars(base))
        if not name.startswith("_") and _belongs(inspect.getattr_static(kind, name))
    ]


def _belongs(member: object) -> bool:
    """Whether a member was written here, and is not a field of a tuple, which the signature shows."""
    if isinstance(member, _FIELD):
        return False
    function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    return (getattr(function, "__module__", None) or "onebit.").startswith("onebit.")


def public_names(module: str) -> list[str]:
    """The names that a module offers; those of `onebit` without the learner classes and the modules below it."""
    if module == "onebit":
        return [name for name, home in HOMES.items() if home != f"onebit.{name}"]
    return list(importlib.import_module(module).__all__)


def classes_page() -> str:
    """The learner classes, each with a link to all about it."""
    rows = [
        (f"`onebit.{rule.title}`", f"[{rule.name}](learners.md#{rule.name})", f"{rule.summary}.")
        for rule in registry().values()
    ]
    return "\n".join(table(("class", "learner", "what it does"), rows)) + "\n"


def settings_page() -> str:
    """The settings of a service, each with its field, its name in the environment, its default and its meaning."""
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    rows = [
        (
            f"`{name}`",
            f"`{environment_variable(name)}`",
            "needed" if defaults[name] is dataclasses.MISSING else f"`{defaults[name]}`",
            option.help,
        )
        for name, option in OPTIONS.items()
    ]
    return "\n".join(table(("field", "in the environment", "default", "meaning"), rows)) + "\n"
