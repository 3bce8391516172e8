"""The folder that the tests of snapshots use."""

from pathlib import Path

import pytest

from tests.snapshots.kit import GIT_ENVIRONMENT, Folder


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of whoever runs the tests do not matter."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(name, GIT_ENVIRONMENT[name])


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)
