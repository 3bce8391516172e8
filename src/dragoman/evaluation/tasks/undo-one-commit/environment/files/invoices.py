"""Prints invoices."""

from pricing import price, total


def invoice(items):
    """Return the lines of an invoice."""
    lines = [f"{name}: {price(net, '0.19')}" for name, net in items]
    return [*lines, f"total: {total(price(net, '0.19') for _, net in items)}"]
