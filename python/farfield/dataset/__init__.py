"""Abilities of every kind of dataset."""
