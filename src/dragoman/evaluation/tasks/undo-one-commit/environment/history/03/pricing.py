"""Prices."""

from decimal import ROUND_DOWN, Decimal

CENT = Decimal("0.01")


def price(net, rate):
    """Return the gross price of a net price, to the cent."""
    return (Decimal(net) * (1 + Decimal(rate))).quantize(CENT, rounding=ROUND_DOWN)
