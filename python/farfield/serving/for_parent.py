"""The server that `ssh://` starts at the other machine: for one client, as long as its pipe is open."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from farfield.serving import tokens
from farfield.serving.server import ServeOptions, parse_names, start


def serve_parent(names: Sequence[str]) -> None:
    """Serves until the standard input ends. Its first line of output is a JSON object: port, fingerprint, token, and
    addresses of this machine."""
    with tempfile.TemporaryDirectory(prefix="farfield-serve-") as folder:
        state = Path(folder)
        token = tokens.add(state, f"parent-{secrets.token_hex(4)}")
        # Any address: which one the client reaches is not known here. Nothing is given without the token.
        options = ServeOptions(names=parse_names(names), listen="0.0.0.0:0", tls=True, state=state)
        with start(options) as server:
            port = int(server.address.rpartition(":")[2])
            said = {
                "port": port,
                "fingerprint": server.fingerprint,
                "token": token,
                "addresses": [socket.gethostname(), *_ssh_address()],
            }
            print(json.dumps(said), flush=True)
            while os.read(sys.stdin.fileno(), 1 << 16):
                pass


def _ssh_address() -> list[str]:
    """The address by which the client's ssh came."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2:3]
