"""Prints invoices."""

from pricing import price, total


def invoice(items, customer):
    # TODO my new layout, not finished
    lines = [f"Invoice for {customer.upper()}"]
    lines += [f"{name}: {price(net, '0.19')}" for name, net in items]
