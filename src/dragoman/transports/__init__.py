"""Ways to move bytes: memory, file descriptors, stdio, child processes.

Each module is one implementation of `dragoman.rpc.transport.Transport` and does not depend on what the bytes contain.
Nothing is imported here, so that an agent on stdio does not load what starts processes. Read `fd.py` first.
"""

from __future__ import annotations

from typing import Final

LOW_MARK_BYTES: Final = 4096
"""`Receiver.drained` is called when no more is unsent: low enough to batch, high enough to keep a pipe busy."""
