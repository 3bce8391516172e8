"""`--record FILE`: the connection of a run as a recording, without the keys that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli.exits import CliError
from dragoman.text.secrets import known_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.rpc import Observer
    from dragoman.text.secrets import Secrets


def make_recorder(
    path: str | None, command: Sequence[str], cwd: str, secrets: Secrets | None = None
) -> Observer | None:
    """Return the observer that writes the recording; None if none is wanted.

    Raises:
        CliError: the file cannot be written.
    """
    if path is None:
        return None
    from dragoman.trace.record.recorder import Recorder

    hidden = known_keys if secrets is None else secrets

    class WithoutKeys(Recorder):
        def received(self, line: bytes) -> None:
            super().received(hidden.mask_bytes(line))

        def sent(self, line: bytes) -> None:
            super().sent(hidden.mask_bytes(line))

    try:
        return WithoutKeys(path, command=[*map(hidden.mask, command)], cwd=cwd)
    except OSError as error:
        raise CliError(f"--record {path}: {error.strerror}", hint="name a file that can be written") from None
