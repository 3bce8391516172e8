"""The limit, asked for very often."""

from config import loader

_limit = None


def limit():
    """Return the limit of the configuration."""
    global _limit
    if _limit is None:
        _limit = loader.value("limit")
    return _limit
