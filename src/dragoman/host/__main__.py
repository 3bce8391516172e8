"""The program of the local host. It is started by `host/local/start.py`, not by hand."""

import os
import sys

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from typing import NoReturn


def program(words: list[str]) -> "NoReturn":
    """Leave a child behind that is the host, so that the starter is not its parent."""
    if len(words) != 4:
        sys.stderr.write("This program is started by dragoman itself: see dragoman exec --session NAME.\n")
        raise SystemExit(2)
    if os.fork():  # before anything is loaded: no thread is there yet, and it costs little
        os._exit(0)
    from dragoman.host.local.build import build_stamp, clone_stamp

    started_from = build_stamp(), clone_stamp()  # before the other modules: none is loaded that the stamps do not know
    from dragoman.host.local.daemon import run_host

    folder, mark, lock, ready = words
    code = run_host(folder, mark, int(lock), int(ready), started_from)
    sys.stderr.flush()
    raise SystemExit(code)


if __name__ == "__main__":
    program(sys.argv[1:])
