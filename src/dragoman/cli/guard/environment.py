"""The environment of a guarded agent, repaired where editors break it.

An editor that was started from a desktop has a short PATH, and variables of its own runtime that change how Node.js and
Python programs run. Pure: mappings in, mappings out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# Folders with programs that a login shell finds and a desktop session often does not.
_PLACES: Final = ("~/.local/bin", "~/bin", "~/.cargo/bin", "~/.bun/bin", "~/.deno/bin", "/opt/homebrew/bin")
_SYSTEM: Final = ("/usr/local/bin", "/usr/bin", "/bin")
# Set by editors for themselves; in an agent they change which runtime it is, or point into the editor's package.
_OF_EDITORS: Final = ("ELECTRON_RUN_AS_NODE", "ELECTRON_NO_ATTACH_CONSOLE", "VSCODE_NODE_OPTIONS", "NODE_CHANNEL_FD")
_PACKAGED: Final = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "GIO_MODULE_DIR", "GTK_PATH")


def repaired(environment: Mapping[str, str], home: str) -> dict[str, str | None]:
    """Return how an agent's environment differs from an editor's: variables that are set, and None for removed ones."""
    changes: dict[str, str | None] = {name: None for name in _OF_EDITORS if name in environment}
    package = environment.get("APPDIR") or environment.get("SNAP") or ""
    for name in _PACKAGED:
        value = environment.get(name, "")
        if package and value:
            kept = [part for part in value.split(os.pathsep) if part and not part.startswith(package)]
            if len(kept) != len(value.split(os.pathsep)):
                changes[name] = os.pathsep.join(kept) or None
    if not environment.get("HOME"):
        changes["HOME"] = home
    if not any(environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        changes["LANG"] = "C.UTF-8"
    path = [part for part in environment.get("PATH", "").split(os.pathsep) if part]
    wanted = [*(place.replace("~", home, 1) for place in _PLACES), *_SYSTEM]
    missing = [place for place in wanted if place not in path and os.path.isdir(place)]
    if missing:
        changes["PATH"] = os.pathsep.join((*path, *missing))
    return changes
