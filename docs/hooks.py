"""Makes the page of the learners from the registry while the site is built, so that a new rule is documented by being there.

It also sets the formulas of the pages: what is written in LaTeX becomes MathML, which browsers draw by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onebit.cli.learners import feedback_of, shown
from onebit.contract.parameters import OneOf, Parameter
from onebit.contract.rule import Rule
from onebit.errors import OnebitError
from onebit.options import MEANINGS
from onebit.rules import registry

if TYPE_CHECKING:  # the tests read this file where MkDocs is not installed
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

CLASSES = ["left", "right", "up"]
FORMULA = re.compile(r"^```math\n(?P<display>.+?)\n```$|\$`(?P<inline>[^`]+)`\$", re.MULTILINE | re.DOTALL)
# A formula on its way through Markdown, which must not touch it: its bytes in hexadecimal.
CARRIED = re.compile(r"<p>display-formula-(?P<display>[0-9a-f]+)-end</p>|inline-formula-(?P<inline>[0-9a-f]+)-end")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """What MkDocs asks once it has found its files: one more."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "learners.md", content=learners_page()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What MkDocs asks for each page: formulas in a safe form, and without the empty line that ends an example for doctest."""
    return FORMULA.sub(_carried, markdown.replace("\n\n```\n", "\n```\n"))


def on_page_content(html: str, **_: Any) -> str:
    """What MkDocs asks for each page once it is HTML: the formulas set."""
    return CARRIED.sub(_mathml, html)


def _carried(formula: re.Match[str]) -> str:
    """A formula as a word.

    >>> on_page_markdown("Where $`x = 0`$ nothing moves.")
    'Where inline-formula-78203d2030-end nothing moves.'
    """
    return f"{formula.lastgroup}-formula-{formula[formula.lastgroup or 0].encode().hex()}-end"


def _mathml(word: re.Match[str]) -> str:
    """A formula as MathML. What the converter does not know it would print as it is: that ends the build."""
    from latex2mathml.converter import convert

    latex = bytes.fromhex(word[word.lastgroup or 0]).decode()
    displayed = word.lastgroup == "display"
    formula: str = convert(latex, display="block" if displayed else "inline")
    if "\\" in formula or "<mi>&</mi>" in formula:
        raise ValueError(f"latex2mathml does not know all of this formula: {latex}")
    # A formula that is too wide scrolls, by keys too.
    return f'<div class="formula" tabindex="0">{formula}</div>' if displayed else formula


def learners_page() -> str:
    """The page of all learners, as Markdown. Its examples run.

    >>> import doctest
    >>> examples = doctest.DocTestParser().get_doctest(learners_page(), {}, "learners.md", None, 0)
    >>> doctest.DocTestRunner().run(examples).failed
    0
    """
    rules = registry().values()
    lines = [
        "# The learners",
        "",
        "This page is made from the source while the site is built. `onebit learners` prints the same lists.",
        "",
        "With *bandit* feedback a learner is told right or wrong, with *full information* the class every time: use the latter as a "
        "reference, to see what bandit feedback costs.",
        "",
        *_table(
            ("name", "class", "feedback", "paper"),
            [
                (f"[`{rule.name}`](#{_anchor(rule)})", f"`{rule.title}`", feedback_of(rule), rule.paper)
                for rule in rules
            ],
        ),
        "",
        "## Options that all share",
        "",
        "Every class takes these beside its own parameters.",
        "",
        *_table(("option", "meaning"), [(f"`{name}`", meaning) for name, meaning in MEANINGS.items()]),
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
        f"- Feedback: {feedback_of(rule)}.",
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
        lines += _table(("parameter", "default", "range", "meaning"), rows)
    else:
        lines.append("There is nothing to set.")
    return [*lines, "", "**Example**", "", *_example(rule, needed), "", *_command(rule, needed)]


def _anchor(rule: Rule) -> str:
    """The name as a heading is linked to: `auto-03` for auto-0.3."""
    return str(rule.name).replace(".", "")


def _exactly(rule: Rule) -> str:
    """Where a rule stands formula by formula."""
    if rule.composite:
        return f"[a page of its own]({_anchor(rule)}.md)"
    page = "algorithms-first-order.md" if rule.second_order is None else "algorithms-second-order.md"
    return f"[formula by formula]({page}#{rule.name})"


def _prose(text: str) -> str:
    """A module's documentation as Markdown: its indented formulas are code blocks already, its departures get a mark."""
    return re.sub(r"^(Departures?):", r"**\1:**", text, flags=re.MULTILINE)


def _default(rule: Rule, name: str) -> str:
    return f"`{shown(rule.defaults[name])}`"


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
    given = "".join(f" --set {name}={shown(value)}" for name, value in options.items())
    return ["```bash", f"onebit run {rule.name} synsep9 --rounds 10000{given}", "```"]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    cells = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return ["| " + " | ".join(row) + " |" for row in cells]
