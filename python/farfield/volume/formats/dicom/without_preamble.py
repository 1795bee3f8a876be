"""Recognition of DICOM data sets without the mark `DICM`, by their first elements."""

from __future__ import annotations

import struct

_LEAST = 3
"""Smallest number of consecutive elements that identify a data set."""
_LONGEST = 1 << 16
"""Largest size of one of the first elements in bytes."""
_VRS = frozenset((
    b"AE", b"AS", b"AT", b"CS", b"DA", b"DS", b"DT", b"FD", b"FL", b"IS", b"LO", b"LT", b"PN", b"SH", b"SL", b"SS", b"ST", b"TM",
    b"UI", b"UL", b"US",
))  # fmt: skip
_LONG = frozenset((b"OB", b"OW", b"SQ", b"UN", b"UT", b"OF", b"UC", b"UR"))
"""Value representations with lengths of 32 bits."""
_FIRST = (0x0002, 0x0008)
"""Groups at the beginning of a data set."""


def is_dicom_start(start: bytes) -> bool:
    """Whether a file with this beginning (4096 bytes suffice) is DICOM, with or without the mark.

    >>> is_dicom_start(bytes(128) + b"DICM"), is_dicom_start(bytes(4096))
    (True, False)
    """
    return start[128:132] == b"DICM" or is_bare(start)


def is_bare(start: bytes) -> bool:
    """Whether a file with this beginning consists of elements of a data set, in any transfer syntax."""
    return any(_walks(start, order, explicit) for order, explicit in (("<", False), ("<", True), (">", True)))


def _walks(start: bytes, order: str, explicit: bool) -> bool:
    at, count, last = 0, 0, (0, -1)
    while at + 12 <= len(start):
        tag = struct.unpack_from(order + "HH", start, at)
        if tag <= last or (count == 0 and tag[0] not in _FIRST) or tag[0] < 2:
            return False
        if explicit:
            kind = start[at + 4 : at + 6]
            if kind in _VRS:
                length, at = struct.unpack_from(order + "H", start, at + 6)[0], at + 8
            elif kind in _LONG:
                length, at = struct.unpack_from(order + "I", start, at + 8)[0], at + 12
            else:
                return False
        else:
            length, at = struct.unpack_from("<I", start, at + 4)[0], at + 8
        count += 1
        if count >= _LEAST:
            return True
        # A sequence may omit its length; other elements are short and even.
        if length > _LONGEST or length % 2:
            return False
        last, at = tag, at + length
    return False
