"""Names of a package that are imported when first used, so that `import dragoman` and every command start quickly.

A package lists where its names live and assigns the result to `__getattr__`, outside of `TYPE_CHECKING` so that type
checkers still report a misspelt name.
"""

# Not `typing.TYPE_CHECKING`: type checkers know this name too, and importing `typing` would triple the cost of
# `dragoman --version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def lazy_exports(namespace: "dict[str, object]", homes: "Mapping[str, Iterable[str]]") -> "Callable[[str], object]":
    """Return a module's `__getattr__` that imports each name from its module on first use.

    Args:
        namespace: the package's `globals()`. A name that was imported is stored there, so it is looked up once.
        homes: for each module, absolute or relative (`.child`), the names it defines.
    """
    package = str(namespace["__name__"])
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(_import(home, package), name)
        return value

    return load


def _import(home: str, package: str) -> object:
    """Import a module with the garbage collector paused.

    Everything an import creates stays alive, so a collection finds nothing; together they are a tenth of the time an
    agent takes to start.
    """
    import gc
    from importlib import import_module

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(home, package)
    finally:
        if was_enabled:
            gc.enable()
