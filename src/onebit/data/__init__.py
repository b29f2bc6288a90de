"""Sources of streams: generators, real data, files and arrays; and the streams themselves."""

from __future__ import annotations

from onebit.data.dataset import Dataset
from onebit.data.sources import Source, names, source_of
from onebit.data.streams import Stream, stream

__all__ = ["Dataset", "Source", "Stream", "names", "source_of", "stream"]
