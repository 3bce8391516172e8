"""Runs that fork from a waiting Python do what runs of a Python of their own do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.exec_kit import SECONDS, Place, place
from tests.cli.warm_python import WarmPython

__all__ = ["place"]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("words", [["--version"], ["nope"], ["rules", "list", "--json"], ["exec", "-a", "scripted"]])
def test_a_run_prints_and_ends_as_one_with_its_own_python(
    place: Place, words: list[str], warm_python: WarmPython
) -> None:
    text = "say read from stdin\n"
    usual = subprocess.run(
        place.words(*words),
        cwd=place.project,
        env=place.environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    warm = warm_python.run(words, cwd=place.project, env=place.environment, stdin=text, seconds=SECONDS)
    assert warm is not None
    assert (warm.returncode, warm.stdout) == (usual.returncode, usual.stdout)
    assert len(warm.stderr.splitlines()) == len(usual.stderr.splitlines())


def test_no_module_of_ours_looks_at_the_environment_or_the_folder_when_it_is_imported() -> None:
    """Else a run would see what the waiting process had."""
    code = """
import os, sys
class Watched(type(os.environ)):
    def __getitem__(self, name):
        frame = sys._getframe(1)
        while frame and "importlib" not in frame.f_code.co_filename:
            if "/dragoman/" in frame.f_code.co_filename:
                print(name, frame.f_code.co_filename)
            frame = frame.f_back
        return super().__getitem__(name)
from tests.cli.warm_python import LOADED, OURS, import_all
for name in LOADED:
    import_all(name)
os.environ.__class__ = Watched
for name in OURS:
    import_all(f"dragoman.{name}.*")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_a_run_that_takes_too_long_is_ended_and_the_next_one_works(place: Place, warm_python: WarmPython) -> None:
    words = ["exec", "-a", "scripted", "slow 60"]
    with pytest.raises(subprocess.TimeoutExpired):
        warm_python.run(words, cwd=place.project, env=place.environment, stdin="", seconds=1.0)
    assert place.run("--version", verb="--version").code == 0


def test_settings_for_python_itself_are_left_to_a_python_of_its_own(place: Place, warm_python: WarmPython) -> None:
    place.environment["PYTHONUTF8"] = "0"
    assert warm_python.run(["--version"], cwd=place.project, env=place.environment, stdin="", seconds=SECONDS) is None
    assert place.run(verb="--version").code == 0
