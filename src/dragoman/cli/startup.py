"""Start-up optimisations for programs; a library must not do this. No behaviour depends on them."""

import sys


def load_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which it imports if present and does not need on these Pythons.

    That import takes longer than msgspec itself: a tenth of the time that `dragoman exec` adds to a turn. A later
    import of `typing_extensions` works as usual.
    """
    name = "typing_extensions"
    if name in sys.modules or "msgspec" in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment]  # makes `import typing_extensions` fail
    try:
        import msgspec  # noqa: F401  # only loaded here
    finally:
        del sys.modules[name]
