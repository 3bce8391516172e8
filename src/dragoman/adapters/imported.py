"""The object that `module:object` or `file.py:object` names.

Owns the import of the user's code: it may print, and must not reach the protocol's stream, so standard output leads to
standard error while it runs.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.values import AdapterError
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


def find_object(source: str, folder: Path) -> Any:
    """Return the object; `()` after its name calls it first.

    Args:
        source: `module:object`, `path/to/file.py:object` or, for an object of a module, `module:object.member`.
        folder: where modules and files are looked for first.

    Raises:
        ConfigError: the module, the file or the object is not there. AdapterError: the user's code failed.
    """
    place, colon, name = source.rpartition(":")
    if not colon or not place or not name:
        raise ConfigError(f"{source!r} does not name an object; write MODULE:OBJECT or FILE.py:OBJECT")
    is_called = name.endswith("()")
    name = name.removesuffix("()")
    with prints_to_stderr():
        module = _module(place, folder)
        found: Any = module
        for part in name.split("."):
            if not hasattr(found, part):
                raise ConfigError(f"{place} has no {name!r}{_suggestion(module)}")
            found = getattr(found, part)
        return _run(place, found) if is_called else found


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Send everything that is written to standard output inside to standard error, also by child processes."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # standard output is closed
        yield
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _module(place: str, folder: Path) -> ModuleType:
    sys.path.insert(0, str(folder))
    if place.endswith(".py") or "/" in place:
        return _file(folder / place)
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not (place == error.name or place.startswith(f"{error.name}.")):
            raise _failed(place, error) from error  # it is there; something it needs is missing
        raise ConfigError(
            f"there is no module {place!r} in {folder} or among the installed packages; name its folder with --folder"
        ) from None
    except (Exception, SystemExit) as error:
        raise _failed(place, error) from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {path}; name its folder with --folder")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses and pickles look for it
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _failed(str(path), error) from error
    return module


def _run(place: str, function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        raise _failed(place, error) from error


def _failed(place: str, error: BaseException) -> AdapterError:
    return AdapterError(f"{place} failed while it was loaded: {type(error).__name__}: {error}")


def _suggestion(module: ModuleType) -> str:
    """Return the objects of a module that can be wrapped, for a name that is not there."""
    from dragoman.adapters.wrapping import framework_of

    found = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and (isinstance(value, Adapter) or framework_of(value) is not None)
    ]
    return f"; it has {', '.join(found)}" if found else ""
