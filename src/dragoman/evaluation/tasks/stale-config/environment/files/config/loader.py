"""Loads the configuration and answers for its values."""

from pathlib import Path

from config import cache, parser

_loaded = {}


def load(path):
    """Read the file at `path`; its values replace the old ones."""
    global _loaded
    _loaded = parser.parse(Path(path).read_text())


def value(key):
    """Return the value of `key`. Raises: KeyError."""
    return cache.lookup(key, lambda name: _loaded[name])
