"""The files of a served host, below one folder that only its owner can read."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from dragoman.cli.exits import CliError
from dragoman.settings.places import data_dir
from dragoman.workspace.private import make_private_folder, open_private


class ServePlaces:
    """The data folder of `dragoman serve`."""

    def __init__(self, given: str | None) -> None:
        self.folder = data_dir() / "serve" if given is None else Path(given).absolute()
        self.tokens = self.folder / "tokens.json"
        self.first_token = self.folder / "first.token"
        self.log = self.folder / "sessions.sqlite"
        self.audit = self.folder / "audit"

    def lock(self, *, restores: bool = False, wants_all: bool = False) -> int:
        """Take the folder for this program; the lock ends with it.

        Args:
            restores: Whether the content of the folder is to be replaced.
            wants_all: Whether a host that uses it was asked to hand over, and does not.

        Raises:
            CliError: another host uses it, or it has half of a backup in it.
        """
        make_private_folder(self.folder)
        descriptor = open_private(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if wants_all:
                raise CliError(
                    f"the host that uses {self.folder} does not hand over: it is too old for that, or it ends",
                    hint="end it, and start this one when it has ended",
                ) from None
            raise CliError(
                f"another host uses {self.folder}",
                hint="--replace lets this one go on in its place; --data gives this one a folder of its own",
            ) from None
        if not restores and (self.folder / "restore.unfinished").exists():  # as in `host/serving/backup.py`
            os.close(descriptor)
            raise CliError(
                f"a restore of {self.folder} was not finished",
                hint="run it once more: dragoman serve restore BACKUP; what was there before is kept",
            )
        return descriptor
