"""Flows: datasets of zones, with their lines, vortex cores and flow maps."""
