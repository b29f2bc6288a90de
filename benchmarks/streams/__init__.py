"""Streams that are drawn anew for every seed: what `auto` and the corpus are measured on."""
