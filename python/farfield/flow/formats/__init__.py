"""Readers of flows in foreign formats: `registry` has the table of them, `description` what a reader returns."""
