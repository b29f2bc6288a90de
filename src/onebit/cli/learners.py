"""List the learners with their parameters and feedback; describe named ones in full, with sources.

onebit learners
onebit learners linucb auto
"""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from onebit.cli.options import add_rule_option
from onebit.cli.terminal import print_json
from onebit.contract.rule import Rule
from onebit.experiments.trials import OPTIONS
from onebit.rules import chosen_rules, registry, rule_named


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("names", metavar="NAME", nargs="*", help="learners to describe in full (default: list all)")
    add_rule_option(command)


def execute(args: argparse.Namespace) -> None:
    """Print the learners."""
    rules = [rule_named(name) for name in args.names] or list(chosen_rules().values())
    if args.json:
        print_json([describe_rule(rule) for rule in rules], indent=2)
        return
    for rule in rules:
        home = f"onebit.{rule.title}" if rule.name in registry() else "a rule of your own"
        print(f"{rule.name}  ({home}, feedback: {describe_feedback(rule)}; {rule.paper})")
        print(textwrap.indent(rule.documentation if args.names else rule.summary, "    "))
        for name, parameter in rule.parameters.items():
            print(f"      {name} = {format_default(rule.defaults[name])}    {parameter.range}    {parameter.meaning}")
    if args.names:
        return
    print("every learner")
    for name, meaning in OPTIONS.items():
        print(f"      {name}    {meaning}")


def describe_rule(rule: Rule) -> dict[str, Any]:
    """Return the description of a rule as plain values for JSON."""
    return {
        "name": rule.name,
        "class": rule.title,
        "feedback": describe_feedback(rule),
        "paper": rule.paper,
        "summary": rule.summary,
        "parameters": [
            {"name": name, "default": rule.defaults[name], "range": parameter.range, "meaning": parameter.meaning}
            for name, parameter in rule.parameters.items()
        ],
    }


def describe_feedback(rule: Rule) -> str:
    """Return the kind of feedback that a rule learns from: bandit, full information, or either."""
    if callable(rule.full_information):
        return "bandit or full information"
    return "full information" if rule.full_information else "bandit"


def format_default(value: object) -> str:
    """Format a default as it is typed on the command line."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
