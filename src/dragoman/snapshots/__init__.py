"""What a turn changed in the folders of a session, kept so that it can be reviewed and taken back.

Owns the look at a folder before and after a turn, the store of contents, and the rewind. Does not know the protocol,
asyncio or how anything is shown, and never writes into a repository. Read `tracking.py` first, then `scan.py` and
`rewind.py`. Names are loaded when first used: most programs need none of it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.snapshots.attribution import AgentClaims
    from dragoman.snapshots.limits import SnapshotLimits
    from dragoman.snapshots.records import TreeChange, TurnChanges
    from dragoman.snapshots.tracking import TurnTracker

__all__ = ["AgentClaims", "SnapshotLimits", "TreeChange", "TurnChanges", "TurnTracker"]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {
            ".attribution": ("AgentClaims",),
            ".limits": ("SnapshotLimits",),
            ".records": ("TreeChange", "TurnChanges"),
            ".tracking": ("TurnTracker",),
        },
    )
