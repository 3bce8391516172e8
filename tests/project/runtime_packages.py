"""The packages that `make run` installs: those of the pins of some requirement files, and what they need."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.project.sources import ROOT

RUNTIME = ["agent.txt", "base.txt", "build.txt", "remote.txt", "tui.txt"]
"""The requirement files; test_makefile.py compares them with what make does."""
_HIDDEN = """\
from importlib.machinery import PathFinder
HIDDEN = frozenset({names})
find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in HIDDEN else find_spec(name, *more)
"""


def pinned_at_run_time() -> set[str]:
    """The names of the packages that are pinned there."""
    lines = [line for name in RUNTIME for line in (ROOT / "requirements" / name).read_text().splitlines()]
    return {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}


def closure(names: Iterable[str]) -> dict[str, Distribution]:
    """The distributions of this environment that the named ones need, themselves included."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(name) for name in names]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found and not requirement.extras:
            continue
        found[name] = distribution(name)
        for line in found[name].requires or ():
            needed = Requirement(line)
            wanted = [{"extra": extra} for extra in ("", *requirement.extras)]
            if needed.marker is None or any(needed.marker.evaluate(extra) for extra in wanted):
                waiting.append(needed)
    return found


def hide_others(folder: Path) -> None:
    """Lets every Python with this folder in PYTHONPATH work as if only these packages were installed."""
    kept = {*pinned_at_run_time(), "dragoman", "pip", "setuptools"}
    owners = packages_distributions().items()
    names = sorted(name for name, found in owners if not kept & {canonicalize_name(owner) for owner in found})
    (folder / "sitecustomize.py").write_text(_HIDDEN.format(names=names))
