"""Readers of formats of volumes: each says what a volume is and where its bytes lie; the extension reads and decodes the pages.

A reader is a module with a function that takes a path and gives a `Volume` (description.py). What cannot be read in part is
converted into the cache first (cache_conversion.py).
"""
