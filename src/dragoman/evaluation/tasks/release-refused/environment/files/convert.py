"""Converts temperatures."""

VERSION = "1.2.0"
ZERO = -273.15


def to_celsius(value, unit):
    """Return a temperature in degrees Celsius."""
    if unit == "kelvin":
        return value + ZERO
    if unit == "fahrenheit":
        return (value - 32) * 5 / 9
    return value
