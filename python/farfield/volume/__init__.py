"""Volumes: regular grids of numbers or colours."""
