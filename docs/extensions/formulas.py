"""Sets formulas without a network: LaTeX, written as GitHub shows it, becomes MathML, which browsers draw by themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the tests read this file where Sphinx is not installed
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

FORMULA = re.compile(r"^```math\n(?P<display>.+?)\n```$|\$`(?P<inline>[^`]+)`\$", re.MULTILINE | re.DOTALL)


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls first."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def as_roles(markdown: str) -> str:
    """Inline formulas in the form that MyST reads; it reads blocks of ```math as they are.

    >>> as_roles("Where $`x = 0`$ nothing moves.")
    'Where {math}`x = 0` nothing moves.'
    """
    return FORMULA.sub(lambda found: f"{{math}}`{found['inline']}`" if found["inline"] else found[0], markdown)


def mathml(latex: str, display: bool = False) -> str:
    """A formula as MathML. What the converter does not know it would print as it is: that ends the build."""
    from latex2mathml.converter import convert

    formula: str = convert(latex, display="block" if display else "inline")
    if "\\" in formula or "<mi>&</mi>" in formula:
        raise ValueError(f"latex2mathml does not know all of this formula: {latex}")
    return formula


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    from docutils.nodes import SkipNode

    writer.body.append(mathml(node.astext()))
    raise SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    from docutils.nodes import SkipNode

    # A formula that is too wide scrolls, by keys too.
    writer.body.append(f'<div class="formula" tabindex="0">{mathml(node.astext(), display=True)}</div>\n')
    raise SkipNode
