"""The command line that starts this program again, and how such a command line is recognised.

`python -m dragoman` alone would put the current folder in front of the places where Python looks for modules: in a
project that has a file `queue.py` that file would run, before anything was permitted. With `-P` it does not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

_SAFE: Final = "-P"
_FLAGS: Final = frozenset({_SAFE, "-E", "-I", "-s"})


def own_command(*words: str, module: str = "dragoman") -> tuple[str, ...]:
    """Return the command line of this program with these words, for any folder it may be started in."""
    return (sys.executable, _SAFE, "-m", module, *words)


def shell_words(*words: str) -> str:
    """Return what a user types in a shell to start this program with these words."""
    import shlex
    import shutil

    program = "dragoman" if shutil.which("dragoman") else f"{os.path.dirname(sys.executable)}/dragoman"
    return shlex.join((program, *words))


def own_words(command: Sequence[str]) -> list[str] | None:
    """Return the words after the program if a command line starts this program, else None."""
    words = list(command)
    program = os.path.basename(words[0]) if words else ""
    if program == "dragoman":
        return words[1:]
    if not program.startswith("python"):
        return None
    rest = words[1:]
    while rest and rest[0] in _FLAGS:
        rest = rest[1:]
    return rest[2:] if rest[:2] == ["-m", "dragoman"] else None
