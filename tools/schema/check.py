"""Builds every decoder with the running interpreter: one illegal annotation disables every type above it."""

from __future__ import annotations

from dragoman import schema
from dragoman.schema import v1


def broken_types() -> list[str]:
    """One line per generated type that msgspec refuses to decode."""
    broken = []
    for name in v1.__all__:
        if name == "KNOWN_VALUES":
            continue
        try:
            schema.decoder(getattr(v1, name))
        except TypeError as error:
            broken.append(f"dragoman.schema.v1.{name}: {error}")
    return broken
