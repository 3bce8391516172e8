"""Reads `key = value` lines."""

calls = 0  # how often a file was parsed; monitoring reads it


def parse(text):
    """Return the values of a configuration file; whole numbers become int."""
    global calls
    calls += 1
    values = {}
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if line:
            key, _, value = line.partition("=")
            values[key.strip()] = int(value) if value.strip().isdigit() else value.strip()
    return values
