"""A project to work in, beside things that are none of its business; everything is tested with both resolvers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dragoman.errors import ConfigError
from dragoman.workspace import Workspace

if TYPE_CHECKING:
    from dragoman.workspace.resolve import Way

SECRET = "not for agents\n"


@pytest.fixture(params=["openat2", "walk"])
def resolver(request: pytest.FixtureRequest) -> Way:
    way: Way = request.param
    try:
        Workspace((), resolver=way)
    except ConfigError as error:
        pytest.skip(str(error))
    return way


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """`proj`, with a secret outside and a sibling whose name begins alike."""
    project = tmp_path / "proj"
    (project / "src").mkdir(parents=True)
    (project / "src" / "main.py").write_text("print(1)\n")
    for outside in ("elsewhere", "proj-evil"):
        (tmp_path / outside).mkdir()
        (tmp_path / outside / "secret.txt").write_text(SECRET)
    return project


@pytest.fixture
def workspace(project: Path, resolver: Way) -> Iterator[Workspace]:
    with Workspace([project], resolver=resolver) as workspace:
        yield workspace
