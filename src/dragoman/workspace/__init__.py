"""Text files below a session's folders, and a journal of every change.

Owns how a path becomes a file without leaving its root, how a file is replaced in one step, and the journal by which
every change can be reviewed and reverted. Does not know the protocol, asyncio or permissions. Read `workspace.py`
first, then `resolve.py` and `atomic.py`. Names are loaded when first used: many programs need one module of it only.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.workspace.failure import WorkspaceError
    from dragoman.workspace.hunks import Hunk
    from dragoman.workspace.journal import Change, Journal
    from dragoman.workspace.limits import FileLimits
    from dragoman.workspace.workspace import OpenText, Workspace

__all__ = ["Change", "FileLimits", "Hunk", "Journal", "OpenText", "Workspace", "WorkspaceError"]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {
            ".failure": ("WorkspaceError",),
            ".hunks": ("Hunk",),
            ".journal": ("Change", "Journal"),
            ".limits": ("FileLimits",),
            ".workspace": ("OpenText", "Workspace"),
        },
    )
