"""Flows: datasets of zones, and lines, cores and maps of them."""
