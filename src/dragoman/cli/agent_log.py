"""The log of `dragoman agent`: a file that only the user can read, without keys.

Owns its size, its mode, and what happens if it cannot be written: one warning on stderr, and the agent works. Without
the file, warnings and errors go to stderr, which editors show; a disk that is full during the work ends the log.

Loaded when an agent is run: other verbs of `agent` do without it.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from dragoman.text.secrets import Secrets
from dragoman.workspace.private import make_private_folder, open_private

if TYPE_CHECKING:
    from pathlib import Path

_LOG_BYTES = 4 * 1024 * 1024  # one log of this size, and the one before it, are kept


def agent_log(path: Path) -> logging.Handler:
    """Return the handler that writes this file, or else stderr. It never raises."""
    try:
        make_private_folder(path.parent)
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_name(path.name + ".1"))
        handler: logging.Handler = _LogFile(path)
    except OSError as error:
        _warn(path, error)
        handler = logging.StreamHandler(sys.stderr)
        handler.setLevel(logging.WARNING)
        handler.setFormatter(_WithoutKeys("dragoman agent: %(levelname)s: %(message)s"))
        return handler
    handler.setFormatter(_WithoutKeys("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    return handler


class _LogFile(logging.StreamHandler[TextIO]):
    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(open(path, "a", encoding="utf-8", errors="backslashreplace", opener=open_private))  # noqa: SIM115

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name is that of the base class
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        _warn(self._path, error)
        root = logging.getLogger()
        root.addHandler(logging.NullHandler())  # without any, `logging` writes to stderr by itself
        root.removeHandler(self)
        # Closed here, because what is left in its buffer fails again: Python 3.13 and newer print that as a traceback.
        with suppress(OSError):
            self.stream.close()


class _WithoutKeys(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return Secrets(os.environ).mask(super().format(record))


def _warn(path: Path, error: OSError) -> None:
    sys.stderr.write(
        f"dragoman agent: the log {path} cannot be written: {error.strerror or error}; choose another file with --log\n"
    )
