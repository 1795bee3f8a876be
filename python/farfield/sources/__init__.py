"""Source strings and their files."""
