"""Vowpal Wabbit's logs of contextual bandits: lines of text with action:cost:probability, and dsjson, a JSON object a line.

A line of text may list the other actions that could be shown, without a cost: these are the candidates.

Of a dsjson event these are read: `_label_cost`, `_label_probability` and `_label_Action` (what was shown), `a` and `p` (the actions by
their ids from 1 on, and their probabilities), `c` (the context, in VW's JSON) and `EventId`. An id is a place in the list `_multi` of the context. Where
that has other actions in other rounds, the `_tag` of each says which it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from onebit.data.vw_text import ACTION_FEATURES, DIGITS, NUMBER, WHOLE, feature_name, numbered_lines, parsed
from onebit.errors import InputError, brief
from onebit.offpolicy.logs import Costs, Entries
from onebit.offpolicy.rounds import Round

MOST_DIGITS = 16
DEEPEST = 50  # namespaces within namespaces
WHICH = "where not all actions can be shown in each round, only a _tag of each, in _multi, says which they are"
MEANT = re.compile(r"[ :|\t\r\n]")  # something to Vowpal Wabbit's text, so that its JSON puts _ in its place


def vw_entries(path: Path, costs: Costs, complete: bool) -> Entries:
    """The rounds of a .vw file; a line without a label is a decision without an answer."""

    def entries(whole: bool) -> Iterator[Round | None]:
        for number, line, _ in numbered_lines(path):
            try:
                example = parsed(line if whole else line[: line.find("|") + 1])
                if not example.label:
                    yield None
                    continue
                action, cost, probability, among = _shown(example.label)
                right, reward = costs.heard(cost)
                yield Round(number, example.features, action, right, probability, None, among, complete, reward)
            except InputError as error:
                raise InputError(f"line {number} of {path}: {error}") from None

    return entries


def _shown(words: list[str]) -> tuple[int, float, float, list[int] | None]:
    """The action with its cost and probability, and all that could be shown where others are named beside it."""
    if words[0] == "shared":
        raise InputError(ACTION_FEATURES)
    costed = [word.split(":") for word in words if ":" in word]
    if not costed:
        raise InputError(
            "it has no action:cost:probability; a file with the right class on each line is for `onebit run` and `onebit compare`"
        )
    parts = costed[0]
    if len(costed) > 1 or len(parts) != 3 or not all(NUMBER.fullmatch(part) for part in parts[1:]):
        raise InputError(
            f"{brief(' '.join(words))} must be one action:cost:probability, and actions without a cost beside it"
        )
    named = [word.split(":")[0] for word in words]
    for action in named:
        if not WHOLE.fullmatch(action) or int(action) < 0:
            raise InputError(f"the action is {brief(action)}, but must be a whole number from 1 on")
        if int(action) == 0:
            raise InputError(f"there is an action 0: {ACTION_FEATURES}")
    among = sorted({int(action) for action in named}) if len(named) > 1 else None
    return int(parts[0]), float(parts[1]), float(parts[2]), among


def dsjson_entries(path: Path, costs: Costs, complete: bool) -> Entries:
    """The rounds of a .dsjson file; lines that are no decisions (observations that came too late, checkpoints) are passed over."""
    tagged = _tags_differ(path)

    def entries(whole: bool) -> Iterator[Round | None]:
        many: int | None = None
        for number, line, _ in numbered_lines(path):
            try:
                event = _event(line)
                if event is None:
                    continue
                actions = _actions(event)
                if not tagged and many is not None and len(actions) != many:
                    raise InputError(f"before there were {many} actions, and here are {len(actions)}: {WHICH}")
                many = len(actions)
                if "_label_cost" not in event or event.get("_skipLearn") is True:
                    yield None
                    continue
                found = _round(number, event, actions, costs, whole)
                yield _by_tag(found, event, complete) if tagged else found
            except InputError as error:
                raise InputError(f"line {number} of {path}: {error}") from None

    return entries


def _event(line: str) -> dict[str, Any] | None:
    """The decision of a line; nothing where it has none."""
    event = _json(line)
    if not isinstance(event, dict):
        raise InputError(f"it is {brief(event)}, but must be a JSON object")
    if "c" not in event and "_label_cost" not in event:
        return None
    _refuse_other_events(event)
    return event


def _json(line: str) -> Any:
    try:
        # Whole numbers of many digits become floats: they would not fit into one, or take long to read.
        return json.loads(line, parse_int=lambda text: int(text) if len(text) < MOST_DIGITS else float(text))
    except json.JSONDecodeError as error:
        raise InputError(f"it is no JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise InputError("it is nested too deeply") from None


def _tags(event: dict[str, Any]) -> list[Any]:
    """The tags of the actions, in their order; None for one that has none."""
    return [features.get("_tag") for features in event["c"].get("_multi", [])]


def _tags_differ(path: Path) -> bool:
    """Whether the actions have tags, and not the same ones in all rounds: then ids are places in another list each time."""
    first: list[Any] | None = None
    for _, line, _ in numbered_lines(path):
        with suppress(InputError):  # which is told, with its place, when the file is read
            event = _event(line)
            if event is None:
                continue
            tags = _tags(event)
            if first is None:
                first = tags
            if not first or None in first:
                return False
            if tags != first:
                return True
    return False


def _by_tag(found: Round, event: dict[str, Any], complete: bool) -> Round:
    """A round with the tags of actions in the place of their ids, and the candidates."""
    tags = _tags(event)
    if not all(isinstance(tag, str) and tag for tag in tags) or len(set(tags)) != len(tags) or not tags:
        raise InputError(f"the tags of its actions are {brief(tags)}, but each must have one of its own: {WHICH}")
    if int(found.label) > len(tags):
        raise InputError(f"_label_Action is {found.label}, but there are {len(tags)} actions")
    chances = _actions(event)
    return found._replace(
        label=tags[int(found.label) - 1],
        probabilities=dict(zip(tags, chances.values(), strict=True)) if chances else None,
        among=tags,
        complete=complete,
    )


def _refuse_other_events(event: dict[str, Any]) -> None:
    context = event.get("c")
    if not isinstance(context, dict):
        raise InputError("it has no context c, a JSON object")
    for one in (event, context):
        if "_outcomes" in one or "_slots" in one:
            raise InputError("it has several slots, and onebit decides on one label at a time")
    if "_label_ca" in event:
        raise InputError("its actions are points of a line, and onebit's are classes")
    if not isinstance(context.get("_multi", []), list):
        raise InputError(f"_multi is {brief(context['_multi'])}, but must be a list with an object for each action")
    for features in context.get("_multi", []):
        if not isinstance(features, dict) or set(features) - {"_tag"}:
            raise InputError(ACTION_FEATURES)
    if event.get("pdrop"):
        raise InputError(
            f"pdrop is {brief(event['pdrop'])}: some rounds were left out of the log at random, and onebit's all weigh the same"
        )


def _actions(event: dict[str, Any]) -> dict[int, float]:
    """The probabilities of all actions by id, in the order of these; nothing where the event does not say them."""
    ids, chances = event.get("a"), event.get("p")
    if ids is None or chances is None:
        return {}
    if not isinstance(ids, list) or not isinstance(chances, list) or len(ids) != len(chances):
        raise InputError("a and p must be lists of the same length, the actions and their probabilities")
    if sorted(ids, key=repr) != sorted(range(1, len(ids) + 1), key=repr):
        raise InputError(f"a is {brief(ids)}, but must have the ids of all actions from 1 on")
    if len(event["c"].get("_multi", ids)) != len(ids):
        raise InputError(f"a has {len(ids)} actions, and _multi has {len(event['c']['_multi'])}")
    return dict(sorted(zip(ids, chances, strict=True)))


def _round(number: int, event: dict[str, Any], actions: dict[int, float], costs: Costs, whole: bool) -> Round:
    action, cost = event.get("_label_Action"), event["_label_cost"]
    if isinstance(action, bool) or not isinstance(action, int) or action < 1:
        raise InputError(f"_label_Action is {brief(action)}, but must be a whole number from 1 on")
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        raise InputError(f"_label_cost is {brief(cost)}, but must be a number")
    if actions and action not in actions:
        raise InputError(f"_label_Action is {action}, but there are {len(actions)} actions")
    right, reward = costs.heard(cost)
    return Round(
        identity if isinstance(identity := event.get("EventId"), str) and identity else number,
        _summed(_context(event["c"])) if whole else None,
        action,
        right,
        event.get("_label_probability"),
        actions or None,
        list(actions) or None,
        reward=reward,
    )


def _summed(features: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in features:
        found[name] = found.get(name, 0.0) + value
    return found


def _context(found: dict[str, Any], space: str = "", deep: int = 0) -> Iterator[tuple[str, float]]:
    """The features of a context as VW's JSON has them: objects are namespaces, texts are part of the name, what begins with _ is none."""
    if deep > DEEPEST:
        raise InputError("its context is nested too deeply")
    for key, value in found.items():
        if key == "_text" and isinstance(value, str):
            for word in value.split():
                yield _feature(space, word, 1.0)
        elif key.startswith("_") or value is None or value is False:
            continue
        elif isinstance(value, dict):
            yield from _context(value, key, deep + 1)
        elif isinstance(value, list):
            yield from _listed(value, key, deep + 1)
        elif isinstance(value, str):
            yield _feature(space, key + MEANT.sub("_", value), 1.0)
        elif value:
            yield _feature(space, key, float(value))


def _listed(values: list[Any], key: str, deep: int) -> Iterator[tuple[str, float]]:
    for place, value in enumerate(values):
        if isinstance(value, dict):
            yield from _context(value, key, deep)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"the list {brief(key)} has {brief(value)} in it, but must have numbers or objects")
        elif value:
            yield _feature(key, str(place), float(value))


def _feature(space: str, name: str, value: float) -> tuple[str, float]:
    return feature_name(space, (name.lstrip("0") or "0") if DIGITS.fullmatch(name) else name), value
