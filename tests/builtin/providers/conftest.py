"""The tests do not use the keys of the developer who runs them."""

import pytest

from tests.builtin.providers.server import VARIABLES


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
