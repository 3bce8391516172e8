"""Commands that can only write where the user allows it, without network and without the user's secrets.

Owns the policy, two backends with different promises (bubblewrap; a thread restricted by Landlock and seccomp), the
report of what was refused, and the tripwire for protected files. Does not decide which command runs inside. Read
`sandbox.py` first, then docs/sandbox.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.process.sandbox.denials import Denial
    from dragoman.process.sandbox.policy import SandboxPolicy, make_policy
    from dragoman.process.sandbox.sandbox import Available, Backend, Confined, Sandbox, available
    from dragoman.process.sandbox.tripwire import ProtectedChange, Tripwire
else:
    from dragoman._lazy import lazy_exports

    # The tripwire is used without a sandbox as well, and the backends take time to load.
    __getattr__ = lazy_exports(
        globals(),
        {
            ".denials": ("Denial",),
            ".policy": ("SandboxPolicy", "make_policy"),
            ".sandbox": ("Available", "Backend", "Confined", "Sandbox", "available"),
            ".tripwire": ("ProtectedChange", "Tripwire"),
        },
    )

__all__ = [
    "Available",
    "Backend",
    "Confined",
    "Denial",
    "ProtectedChange",
    "Sandbox",
    "SandboxPolicy",
    "Tripwire",
    "available",
    "make_policy",
]
