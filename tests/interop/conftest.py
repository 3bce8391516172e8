"""The walks of the SDKs' clients over our agent, shared by all tests that look at them."""

import os

import pytest

from tests.interop.support import Walks


@pytest.fixture(scope="session")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Walks:
    folder = tmp_path_factory.getbasetemp()
    # All workers of pytest-xdist have their folders in that of the process that started them.
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "walks"
    folder.mkdir(exist_ok=True)
    return Walks(folder)
