"""Keeps values that were looked up."""

_values = {}


def lookup(key, find):
    """Return the cached value of `key`; `find(key)` gives it the first time."""
    if key not in _values:
        _values[key] = find(key)
    return _values[key]


def clear():
    """Forget everything."""
    _values.clear()
