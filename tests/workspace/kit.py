"""What the tests of this folder say often."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dragoman.workspace import WorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dragoman.workspace.failure import Kind


@contextmanager
def refused(*kinds: Kind) -> Iterator[None]:
    """The block ends in a WorkspaceError of one of these kinds."""
    with pytest.raises(WorkspaceError) as caught:
        yield
    assert caught.value.kind in kinds, caught.value


def tree(folder: Path) -> dict[str, bytes | str]:
    """Everything below a folder: content of files, target of links."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }
