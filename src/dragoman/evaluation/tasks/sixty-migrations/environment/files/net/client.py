# Licence: example, see LICENCE
"""The new way."""


def get(address, *, timeout):
    """Return the text at an address."""
    return f"{address}\n{timeout}\n"
