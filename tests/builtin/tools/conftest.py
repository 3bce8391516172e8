"""Which search a test is about."""

import pytest

from dragoman.builtin.tools.search_ripgrep import find_ripgrep


@pytest.fixture
def engine(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> str:
    name = str(request.param)
    if name == "ours":
        monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    assert (find_ripgrep() is None) == (name == "ours")
    return name
