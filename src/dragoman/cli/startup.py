"""Start-up optimisations for programs; a library must not do this. No behaviour depends on them."""

import sys
from types import ModuleType
from typing import Any


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


def shorten_version_lookups() -> None:
    """Answer `importlib.metadata.version(NAME)` from the name of the package's folder.

    The HTTP client asks for its own version when it is imported. `importlib.metadata` itself imports thirty modules for
    that, such as those for zip files, CSV and mail, which takes a thirtieth of the time until the first request to a
    model leaves. Everything else that is asked of the module imports it.
    """
    name = "importlib.metadata"
    if name in sys.modules:
        return
    import importlib.util

    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        return
    stand_in = _Metadata(name)
    stand_in.__path__ = [*spec.submodule_search_locations]
    sys.modules[name] = stand_in
    importlib.metadata = stand_in  # as if it had been imported


class _Metadata(ModuleType):
    """What stands for `importlib.metadata` until more than a version is asked of it; it answers the same then, too."""

    def version(self, distribution_name: str) -> str:
        import os

        start, end = f"{distribution_name}-", ".dist-info"
        for folder in sys.path:
            try:
                found = [name for name in os.listdir(folder or ".") if name.startswith(start) and name.endswith(end)]
            except OSError:
                continue
            if len(found) == 1 and found[0][len(start)].isdecimal():
                return found[0][len(start) : -len(end)]
            if found:
                break  # leftovers, or a longer name
        version: str = self.__getattr__("version")(distribution_name)
        return version

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        if sys.modules.get(self.__name__) is self:
            sys.modules.pop(self.__name__, None)
        return getattr(import_module(self.__name__), name)
