"""Where streams come from: generators, files, and arrays that a user has at hand."""

from __future__ import annotations

from onebit.data.sources import Dataset, Source, names, source_of

__all__ = ["Dataset", "Source", "names", "source_of"]
