"""Readers of volume formats. A reader describes a volume and the places of its bytes; the extension reads and decodes
the pages.

A reader is a module with a function from a path to a `Volume` (description.py). Files that cannot be read in part are
converted into the cache first (cache_conversion.py).
"""
