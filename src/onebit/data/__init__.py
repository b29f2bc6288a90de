"""Sources of labelled data (generators, real data sets, files, arrays) and the streams made from them."""

from __future__ import annotations

from onebit.data.dataset import Dataset
from onebit.data.sources import Source, names, source_of
from onebit.data.streams import Stream, stream

__all__ = ["Dataset", "Source", "Stream", "names", "source_of", "stream"]
