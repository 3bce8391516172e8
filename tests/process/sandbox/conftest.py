from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.sandbox.kit import Place, place


@pytest.fixture
def there() -> Iterator[Place]:
    with place() as made:
        yield made
