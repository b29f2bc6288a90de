"""Whether there is memory for what is held at once, whichever way streams are walked: asked before the first of them begins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onebit.data.streams import Stream
from onebit.memory import refuse_beyond_memory


def refuse_what_does_not_fit(streams: Iterable[Stream], threads: int) -> None:
    """Refuse streams, one for each seed, as many as there are threads at a time, that need more memory than there is."""
    by_key: dict[str, Stream] = {}
    seeds = Counter(by_key.setdefault(stream.key, stream).key for stream in streams)
    for key, count in seeds.items():
        stream, at_once = by_key[key], min(count, threads)
        shared, own = stream.least_bytes
        many = f", {at_once} runs of it at a time" if at_once > 1 and own else ""
        refuse_beyond_memory(
            shared + at_once * own,
            f"{stream.name} with {stream.rounds:,} rounds{many}, {_why(stream)}",
            _instead(stream, at_once > 1 and own > 0),
        )


def _why(stream: Stream) -> str:
    if stream.source.columns and not stream.drawn_in_order:
        return "whose rows must all be there at once,"
    return "whose feedback comes late," if stream.delay is not None else "whose rows are shuffled,"


def _instead(stream: Stream, fewer_at_a_time: bool) -> str:
    ways = ["fewer rounds"]
    if stream.source.columns and not stream.drawn_in_order:
        ways.append("fresh rows in the order in which they are drawn")
    elif stream.order == "shuffle":
        ways.append("order resample or file")
    if stream.delay is not None:
        ways.append("a shorter delay")
    if fewer_at_a_time:
        ways.append("fewer threads")
    return f"take {', or '.join(ways)}"
