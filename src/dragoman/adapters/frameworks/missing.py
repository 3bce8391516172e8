"""The error for a framework that is not installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dragoman.errors import ConfigError
from dragoman.extras import install_command


def load(module: str, extra: str) -> Any:
    """Import a module of a framework. Raises: ConfigError with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and module.split(".", maxsplit=1)[0] != error.name.split(".")[0]:
            raise  # the framework is there; something that it needs is missing
        name = module.split(".", maxsplit=1)[0]
        raise ConfigError(f"{name} is not installed; install it with: {install_command(extra)}") from None
