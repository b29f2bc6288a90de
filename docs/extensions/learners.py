"""The reference page of the learners, made from the registry: a new rule is documented by being there."""

from __future__ import annotations

import re
from typing import Any

from docs.extensions.tables import table

from onebit.cli.learners import describe_feedback, format_default
from onebit.contract.options import MEANINGS
from onebit.contract.parameters import OneOf, Parameter
from onebit.contract.rule import Rule
from onebit.errors import OnebitError
from onebit.rules import registry

CLASSES = ["left", "right", "up"]


def learners_page() -> str:
    """All learners, as Markdown. Its examples run.

    >>> import doctest
    >>> examples = doctest.DocTestParser().get_doctest(learners_page(), {}, "learners.md", None, 0)
    >>> doctest.DocTestRunner().run(examples).failed
    0
    """
    rules = registry().values()
    lines = [
        *table(
            ("name", "class", "feedback", "paper"),
            [
                (f"[`{rule.name}`](#{_anchor(rule)})", f"`{rule.title}`", describe_feedback(rule), rule.paper)
                for rule in rules
            ],
        ),
        "",
        "## Options that all share",
        "",
        "Every class takes these beside its own parameters.",
        "",
        *table(("option", "meaning"), [(f"`{name}`", meaning) for name, meaning in MEANINGS.items()]),
    ]
    for rule in rules:
        lines += ["", *_section(rule)]
    return "\n".join(lines) + "\n"


def _section(rule: Rule) -> list[str]:
    needed = _needed(rule)
    lines = [
        f"## {rule.name}",
        "",
        f"`onebit.{rule.title}`: {rule.summary}.",
        "",
        f"- Feedback: {describe_feedback(rule)}.",
        f"- Paper: {rule.paper}.",
        f"- Exactly: {_exactly(rule)}.",
        "",
        _prose(rule.documentation),
        "",
        "**Parameters**",
        "",
    ]
    if rule.parameters:
        rows = [(f"`{name}`", _default(rule, name), _range(one), one.meaning) for name, one in rule.parameters.items()]
        lines += table(("parameter", "default", "range", "meaning"), rows)
    else:
        lines.append("There is nothing to set.")
    return [*lines, "", "**Example**", "", *_example(rule, needed), "", *_command(rule, needed)]


def _anchor(rule: Rule) -> str:
    """Return the name as a heading is linked to."""
    return str(rule.name)


def _exactly(rule: Rule) -> str:
    """Where a rule stands formula by formula."""
    if rule.composite:
        return f"[a page of its own](../explanation/{_anchor(rule)}.md)"
    page = "algorithms-first-order.md" if rule.second_order is None else "algorithms-second-order.md"
    return f"[formula by formula](../explanation/{page}#{rule.name})"


def _prose(text: str) -> str:
    """A module's documentation as Markdown: its indented formulas are code blocks already, its departures get a mark."""
    return re.sub(r"^(Departures?):", r"**\1:**", text, flags=re.MULTILINE)


def _default(rule: Rule, name: str) -> str:
    return f"`{format_default(rule.defaults[name])}`"


def _range(parameter: Parameter) -> str:
    if isinstance(parameter, OneOf):
        return ", ".join(f"`{way}`" for way in parameter.names)
    return ", ".join(f"`{part}`" for part in re.split(r" \| | or ", parameter.range))


def _needed(rule: Rule) -> dict[str, Any]:
    """The options without which a learner cannot be made: none, or those of the first example."""
    try:
        rule.settle(len(CLASSES), {})
    except OnebitError:
        return dict(rule.examples[0])
    return {}


def _example(rule: Rule, options: dict[str, Any]) -> list[str]:
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    told = rule.has_full_information(rule.settle(len(CLASSES), options)[0])
    feedback = 'label="left"' if told else 'right=decision.label == "left"'
    return [
        "```python",
        ">>> import onebit",
        f'>>> learner = onebit.{rule.title}(classes=["left", "right", "up"]{given})',
        ">>> decision = learner.decide([0.5, -1.0])",
        f">>> learner.learn(decision, {feedback})",
        ">>> learner.learnt",
        "1",
        "",
        "```",
    ]


def _command(rule: Rule, options: dict[str, Any]) -> list[str]:
    given = "".join(f" --set {name}={format_default(value)}" for name, value in options.items())
    return ["```bash", f"onebit run {rule.name} synsep9 --rounds 10000{given}", "```"]
