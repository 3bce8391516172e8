"""Ranges of versions as packages write them."""

from __future__ import annotations

import pytest

from dragoman.registry.versions import fits


@pytest.mark.parametrize(
    ("version", "wanted", "answer"),
    [
        ("20.20.2", ">=20", True),
        ("20.20.2", ">=22.13", False),
        ("22.13.0", ">=22.13", True),
        ("22.12.9", ">=22.13", False),
        ("20.20.2", ">= 18.0.0", True),
        ("20.20.2", "^18.17.0 || >=20.5.0", True),
        ("19.9.0", "^18.17.0 || >=20.5.0", False),
        ("18.20.0", "^18.17", True),
        ("20.0.0", ">=18 <20", False),
        ("19.9.9", ">=18 <20", True),
        ("20.1.0", "20.x", True),
        ("21.0.0", "20.x", False),
        ("21.0.0", "20", False),
        ("20.3.0", "~20.2", False),
        ("20.2.9", "~20.2.1", True),
        ("0.3.1", "^0.2.3", False),
        ("0.2.9", "^0.2.3", True),
        ("0.0.4", "^0.0.3", False),
        ("21.0.0", ">20", True),
        ("20.9.0", ">20", False),
        ("20.9.0", "<=20", True),
        ("20.0.0", "18 - 20", True),
        ("21.0.0", "18 - 20", False),
        ("20.0.0", "*", True),
        ("20.0.0", "", True),
        ("20.0.0", "lts/iron", None),
        ("lts", ">=20", None),
        ("20.0", ">=20", None),
    ],
)
def test_version_is_in_its_range(version: str, wanted: str, answer: bool | None) -> None:
    assert fits(version, wanted) is answer
