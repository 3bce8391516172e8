"""The walks of the SDKs' clients over our agent, shared by all tests that look at them."""

import pytest

from tests.interop.support import Walks


@pytest.fixture(scope="session")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Walks:
    return Walks(tmp_path_factory.mktemp("walks"))
