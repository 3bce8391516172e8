"""Changes the user's settings file. Members that are not known here stay as they are."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dragoman.settings.documents import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def edit_settings(path: Path) -> Iterator[dict[str, Any]]:
    """The members of a settings file that has been read and checked; what was changed is written at the end.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    document = read_document(path)
    members: dict[str, Any] = {} if document is None else dict(document.value)
    yield members
    write_document(path, members)
