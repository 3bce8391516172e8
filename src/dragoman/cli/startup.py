"""What makes a command start sooner.

Owns tricks that are fair in a program of our own and would not be in a library. Nothing depends on them.
"""

import sys


def load_msgspec() -> None:
    """Imports msgspec without `typing_extensions`, which it looks for and does not need on these Pythons.

    Loading that takes longer than msgspec itself: a tenth of what `dragoman exec` adds to a turn. Who wants it later
    gets it as always.
    """
    name = "typing_extensions"
    if name in sys.modules or "msgspec" in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how Python is told that there is no such module
    try:
        import msgspec  # noqa: F401  # only loaded here
    finally:
        del sys.modules[name]
