"""Source strings, and the files that they name."""
