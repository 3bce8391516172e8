"""What the machine of the tests has: programs and sandboxes, asked once for a whole run.

A test that cannot run here is skipped with the reason. The answers are those of the moment in which the run began, in
every worker: what another program installs or removes meanwhile changes neither which tests are skipped, nor what a
test expects. `tests/conftest.py` passes them from the process that starts the workers.
"""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.process.sandbox import Available

_PROGRAMS: Final = (
    *("bash", "cc", "git", "make", "nginx", "node", "npm", "openssl", "strace", "tmux", "fish", "zsh"),
    *("caddy", "docker-compose", "systemd-analyze"),
    *("chromedriver", "chromium", "chromium-browser", "google-chrome"),
    *("firefox", "firefox-esr", "WebKitWebDriver", "Xvfb"),
)
_given: dict[str, Any] = {}


def answers() -> dict[str, Any]:
    """All answers, in a form that can be passed to another process."""
    return {
        "programs": {name: program(name) for name in _PROGRAMS},
        "ripgrep": ripgrep(),
        "sandbox": msgspec.to_builtins(sandbox()),
    }


def use(given: Mapping[str, Any]) -> None:
    """Take the answers of the process that started this one; call it before anything is asked."""
    _given.update(given)


@cache
def program(name: str) -> str | None:
    """Return the path of a program; None if it is not installed."""
    if name not in _PROGRAMS:
        raise KeyError(f"{name} is not in the list of tests/machine.py")
    found: str | None = _given["programs"][name] if _given else shutil.which(name)
    return found


@cache
def ripgrep() -> str | None:
    """Return the path of the ripgrep that our searches would use; None if there is none."""
    from dragoman.builtin.tools.search_ripgrep import find_ripgrep

    found: str | None = _given["ripgrep"] if _given else find_ripgrep()
    return found


@cache
def sandbox() -> Available:
    """Return which sandboxes work, and why the others do not."""
    from dragoman.process.sandbox import Available, available

    return msgspec.convert(_given["sandbox"], Available) if _given else available()


def why_missing(*names: str) -> str:
    """Why a test that needs these programs cannot run; empty if it can."""
    missing = [name for name in names if program(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def needs(*names: str) -> pytest.MarkDecorator:
    """Mark tests that need these programs."""
    reason = why_missing(*names)
    return pytest.mark.skipif(bool(reason), reason=reason)


def needs_sandbox(*backends: str) -> pytest.MarkDecorator:
    """Mark tests that need all of these sandboxes; without a name, any."""
    found = sandbox()
    is_there = set(backends) <= set(found.backends) if backends else bool(found.backends)
    return pytest.mark.skipif(not is_there, reason=found.describe())


def needs_programs_in_sandbox() -> pytest.MarkDecorator:
    """Mark tests that run a program of this checkout in bubblewrap, where `/tmp` is private."""
    is_hidden = Path(sys.prefix).resolve().is_relative_to(Path("/tmp").resolve())
    return pytest.mark.skipif(is_hidden, reason="the checkout is in /tmp, which bubblewrap hides from its programs")
