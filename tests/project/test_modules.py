"""A small module with one user in its own package goes home to it, unless it is loaded late on purpose."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

import pytest

from tests.project.sources import package_modules, text_of

FEWEST_LINES = 150
MOST_LINES = 500
"""A module does not go home if that would make a file longer than files shall be."""
# A reason that a module's docstring may state: it is loaded only when it is needed, or before anything else.
_REASON = re.compile(r"start-up|start|load|import", re.IGNORECASE)
_DOCSTRING = re.compile(r'\s*"""(.*?)"""', re.DOTALL)
_NAMED = re.compile(r"dragoman(?:\.\w+)+")
_FROM = re.compile(r"from (dragoman[\w.]*) import \(?([^)\n]*)")


@cache
def importers() -> dict[str, set[str]]:
    """Module -> the modules that name it, in an import or in a string that is loaded later."""
    modules = package_modules()
    found: defaultdict[str, set[str]] = defaultdict(set)
    for module, path in modules.items():
        text = text_of(path)
        names = set(_NAMED.findall(text))
        names |= {f"{source}.{name}" for source, names in _FROM.findall(text) for name in re.findall(r"\w+", names)}
        for name in names:
            while name not in modules:
                name = name.rpartition(".")[0]
            if name != module:
                found[name].add(module)
    return found


def is_homeless(module: str) -> bool:
    """Whether a module is small, has no reason to stand alone, and one user, which is in the same package."""
    path = package_modules()[module]
    users = importers().get(module, set())
    if path.name in ("__init__.py", "__main__.py") or len(users) != 1 or next(iter(users)) + "." in f"{module}.":
        return False
    text = text_of(path)
    docstring = _DOCSTRING.match(text)
    has_reason = bool(docstring and _REASON.search(docstring[1]))
    is_inside = next(iter(users)).split(".")[1:2] == module.split(".")[1:2]
    lines, home = (len(source.splitlines()) for source in (text, text_of(package_modules()[next(iter(users))])))
    return is_inside and not has_reason and lines < FEWEST_LINES and lines + home <= MOST_LINES


def test_small_modules_with_one_user_are_at_home() -> None:
    found = [
        f"{module} is used by {next(iter(importers()[module]))} alone"
        for module in package_modules()
        if is_homeless(module)
    ]
    assert not found, "\n".join(found)


def test_a_small_module_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this looks for would be found: with other sizes there are such modules."""
    monkeypatch.setattr("tests.project.test_modules.FEWEST_LINES", 10_000)
    monkeypatch.setattr("tests.project.test_modules.MOST_LINES", 100_000)
    assert any(map(is_homeless, package_modules()))


def test_every_form_of_a_use_is_seen() -> None:
    assert _FROM.findall("from dragoman.view import rails, lines\n") == [("dragoman.view", "rails, lines")]
    assert _NAMED.findall('load("dragoman.tui.full:run")') == ["dragoman.tui.full"]
