"""Builds every decoder with the running interpreter: one illegal annotation disables every type above it."""

from __future__ import annotations

from dragoman import schema
from dragoman.schema import v1, v2


def broken_types() -> list[str]:
    """One line per generated type that msgspec refuses to decode."""
    broken = []
    for module in (v1, v2):
        for name in module.__all__:
            if name == "KNOWN_VALUES":
                continue
            try:
                schema.decoder(getattr(module, name))
            except TypeError as error:
                broken.append(f"{module.__name__}.{name}: {error}")
    return broken
