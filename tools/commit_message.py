r"""Checks the form of a commit message. Git's `commit-msg` hook calls it with the file of the message.

    python tools/commit_message.py .git/COMMIT_EDITMSG

>>> faults("Say why a page failed\n\nThe error named the page alone.\n")
[]
>>> faults("Say why.\nThe error named the page alone.\n")
['the subject ends with a full stop', 'the line below the subject is not empty']
"""

from __future__ import annotations

import sys
from pathlib import Path

SUBJECT_AT_MOST = 72
"""Characters that `git log --oneline` shows in a terminal of 80 columns."""
CUT = "# ------------------------ >8 ------------------------"
"""Git writes the changes below this line when it is asked to (`commit --verbose`)."""


def faults(message: str) -> list[str]:
    """What is wrong with a message. Lines that git takes out again are passed over."""
    written = message.partition(CUT)[0].splitlines()
    lines = "\n".join(line for line in written if not line.startswith("#")).strip().splitlines()
    if not lines:
        return ["the message is empty"]
    subject = lines[0]
    found = []
    if len(subject) > SUBJECT_AT_MOST:
        found.append(f"the subject has {len(subject)} characters, and at most {SUBJECT_AT_MOST} are allowed")
    if subject.endswith("."):
        found.append("the subject ends with a full stop")
    if lines[1:] and lines[1].strip():
        found.append("the line below the subject is not empty")
    return found


def main(path: str) -> int:
    """Prints the faults of the message in a file; 1 where there are any, else 0."""
    found = faults(Path(path).read_text(encoding="utf-8"))
    for fault in found:
        print(f"commit message: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tools/commit_message.py FILE")
    sys.exit(main(sys.argv[1]))
