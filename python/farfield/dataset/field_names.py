"""Names of fields in the forms that callers give."""

from __future__ import annotations

from collections.abc import Iterable

from farfield.errors import UsageError


def field_names(given: str | Iterable[str] | None) -> list[str]:
    """Turns one name, several names or None into a list.

    Raises:
        UsageError: if a name occurs twice: a file cannot hold two arrays of one name.

    >>> field_names("mach"), field_names(("mach", "pressure")), field_names(None)
    (['mach'], ['mach', 'pressure'], [])
    """
    listed = [given] if isinstance(given, str) else list(given or ())
    twice = next((name for n, name in enumerate(listed) if name in listed[:n]), None)
    if twice is not None:
        raise UsageError(f"field '{twice}' is asked for twice; name it once")
    return listed
