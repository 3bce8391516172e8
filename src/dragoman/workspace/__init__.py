"""Text files below a session's folders, and nothing outside of them.

Owns how a path becomes a file without ever leaving its root, what a reader and a writer of text may meet there, and
the journal by which every change can be reviewed and taken back. Knows nothing of the protocol, of asyncio or of who
may do what. Read `workspace.py` first, then `resolve.py`.
"""

from __future__ import annotations

from dragoman.workspace.failure import WorkspaceError
from dragoman.workspace.hunks import Hunk
from dragoman.workspace.journal import Change, Journal
from dragoman.workspace.limits import FileLimits
from dragoman.workspace.workspace import OpenText, Workspace

__all__ = ["Change", "FileLimits", "Hunk", "Journal", "OpenText", "Workspace", "WorkspaceError"]
