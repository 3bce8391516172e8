# Licence: example, see LICENCE
"""The old way."""


def fetch(address, seconds):
    """Return the text at an address."""
    return f"{address}\n{seconds}\n"
