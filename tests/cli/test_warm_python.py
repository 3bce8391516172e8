"""Runs that fork from a waiting Python do what runs of a Python of their own do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.exec_kit import SECONDS, Place, place
from tests.cli.warm_python import LOADED, WarmPython

__all__ = ["place"]


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


def test_the_waiting_python_has_loaded_nothing_of_ours() -> None:
    code = f"import sys, {', '.join(LOADED)}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.startswith("dragoman")] == []


def test_a_run_that_takes_too_long_is_ended_and_the_next_one_works(place: Place, warm_python: WarmPython) -> None:
    words = ["exec", "-a", "scripted", "slow 60"]
    with pytest.raises(subprocess.TimeoutExpired):
        warm_python.run(words, cwd=place.project, env=place.environment, stdin="", seconds=1.0)
    assert place.run("--version", verb="--version").code == 0


def test_settings_for_python_itself_are_left_to_a_python_of_its_own(place: Place, warm_python: WarmPython) -> None:
    place.environment["PYTHONUTF8"] = "0"
    assert warm_python.run(["--version"], cwd=place.project, env=place.environment, stdin="", seconds=SECONDS) is None
    assert place.run(verb="--version").code == 0
