"""How the tests of the page run: in the loop of the one browser and the one host of this process."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from tests.conftest import SOAK_SECONDS, TEST_SECONDS
from tests.web.kit import Loop, Web, needs_page, opened_web, shared_page

_loops: list[Loop] = []


@pytest.fixture(scope="session")
def _web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    needs_page()
    page = shared_page(tmp_path_factory)
    loop = Loop()
    _loops.append(loop)
    try:
        with opened_web(loop, page) as made:
            yield made
    finally:
        _loops.remove(loop)
        loop.close()


@pytest.fixture
def web(_web: Web) -> Iterator[Web]:
    """The browser, the host and its agent. An error of a script or of the policy fails the test."""
    _web.problems.clear()
    _web.requests.clear()
    yield _web
    assert not _web.problems, _web.problems
    foreign = [url for url in _web.requests if not url.startswith((_web.url, "data:", "blob:", "about:"))]
    assert not foreign, foreign


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs coroutine tests that use the page in its loop."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test) or "web" not in pyfuncitem.funcargs:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    seconds = SOAK_SECONDS if pyfuncitem.get_closest_marker("soak") is not None else TEST_SECONDS
    _loops[-1].run(test(**arguments), seconds)
    return True
