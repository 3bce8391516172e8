"""Importing is free of side effects, needs msgspec at most, and costs next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.project.sources import ROOT, package_modules

MODULES = [name for name in package_modules() if not name.endswith("__main__")]
# The whole package is behind an extra, and says so when it is imported without it.
REMOTE = "dragoman.transports.remote"
# What serves a network; the commands that need it load it when they are used.
SERVING = (
    "dragoman.host.serving.server",
    "dragoman.host.serving.principals",
    "dragoman.host.serving.routes",
    "dragoman.host.serving.upload_pages",
    "dragoman.host.serving.page_files",
    "dragoman.host.serving.ui_stream.endpoint",
    "dragoman.cli.serve.run",
)
# The forms of the terminal client that draw; without their extra, the plain one is used.
DRAWN = ("dragoman.tui.screen.", "dragoman.tui.inline.")
BASE_MODULES = [name for name in MODULES if not name.startswith((REMOTE, *DRAWN)) and name not in SERVING]

SNAPSHOT = """
import atexit, gc, locale, logging, os, signal, sys, threading, warnings

def snapshot():
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    root = logging.getLogger()
    mask = os.umask(0); os.umask(mask)
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "fds": sorted(os.listdir("/proc/self/fd")),
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "umask": mask,
        "signals": handlers,
        "wakeup fd": signal.set_wakeup_fd(-1),
        "root logger": (root.level, list(root.handlers), logging.lastResort, logging.raiseExceptions),
        "our loggers": [
            (name, logging.getLogger(name).level, logging.getLogger(name).handlers)
            for name in logging.root.manager.loggerDict
            if name.startswith("dragoman") and (logging.getLogger(name).level or logging.getLogger(name).handlers)
        ],
        "warnings": list(warnings.filters),
        "at exit": atexit._ncallbacks(),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.breakpointhook),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "recursion limit": sys.getrecursionlimit(),
        "garbage collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "path": list(sys.path),
        "locale": locale.setlocale(locale.LC_ALL),
    }
"""

BLOCKER = """
import sys

class OnlyBase:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("dragoman", "msgspec"):
            raise ModuleNotFoundError(f"{name} is not part of a base install", name=name)

sys.meta_path.insert(0, OnlyBase())
"""


def run_python(code: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=False, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_facade_loads_no_package_and_no_third_party_module() -> None:
    loaded = run_python(
        "import sys; before = set(sys.modules); import dragoman; print(*sorted(set(sys.modules) - before))"
    )
    assert loaded.split() == ["dragoman", "dragoman._lazy", "dragoman._version"]


def test_importing_every_module_changes_nothing_in_the_process() -> None:
    code = f"""{SNAPSHOT}
from importlib import import_module
import asyncio, msgspec  # what these do when first imported is theirs
before = snapshot()
for name in {MODULES!r}:
    import_module(name)
import dragoman
for name in dragoman.__all__:
    getattr(dragoman, name)
after = snapshot()
for key in before:
    assert before[key] == after[key], (key, before[key], after[key])
"""
    run_python(code)


def test_a_collector_that_is_off_stays_off() -> None:
    run_python("import gc; gc.disable(); import dragoman; dragoman.Agent; assert not gc.isenabled()")


def test_a_base_install_can_import_every_module() -> None:
    run_python(f"{BLOCKER}\nfrom importlib import import_module\nfor name in {BASE_MODULES!r}: import_module(name)")


def test_without_its_extra_the_remote_package_names_what_to_install() -> None:
    with pytest.raises(AssertionError, match=r"pip install .*\[remote\]'"):
        run_python(f"{BLOCKER}\nimport {REMOTE}")


@pytest.mark.parametrize("module", SERVING)
def test_without_the_extra_a_command_that_serves_names_what_to_install(module: str) -> None:
    with pytest.raises(AssertionError, match=r"pip install .*\[remote\]'"):
        run_python(f"{BLOCKER}\nimport {module}")


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_a_base_install_has_a_command_line(word: str) -> None:
    code = (
        f"{BLOCKER}\nimport runpy\nsys.argv = ['dragoman', {word!r}]\nrunpy.run_module('dragoman', run_name='__main__')"
    )
    assert "dragoman" in run_python(code)


def test_the_blocker_of_these_tests_blocks() -> None:
    with pytest.raises(AssertionError, match="pytest is not part of a base install"):
        run_python(f"{BLOCKER}\nimport pytest")


def test_a_client_that_only_starts_an_agent_loads_neither_rules_nor_files_nor_names() -> None:
    code = "import sys, asyncio, msgspec; before = set(sys.modules); import dragoman; dragoman.spawn; "
    loaded = run_python(code + "print(*set(sys.modules) - before)").split()
    packages = {".".join(name.split(".")[:2]) for name in loaded}
    assert not packages & {"dragoman.policy", "dragoman.workspace", "dragoman.registry", "dragoman.settings"}
    assert not {name for name in loaded if not name.startswith("dragoman")} - {"gc"}
    assert len(loaded) <= 62, loaded


@pytest.mark.parametrize("role", ["Agent", "spawn"])
def test_a_role_does_not_load_the_other_role(role: str) -> None:
    other = {"Agent": "dragoman.client", "spawn": "dragoman.agent"}[role]
    loaded = run_python(f"import sys, dragoman; dragoman.{role}; print(*sys.modules)").split()
    assert other not in loaded
    assert not {"dataclasses", "http.client", "unittest"} & set(loaded)
