"""`exec --hold`: the agent runs on after its result, until stdin ends."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dragoman.cli.main import main
from tests.cli.exec_kit import Place, place

__all__ = ["place"]


def test_the_agent_runs_on_after_its_result_until_stdin_ends(place: Place) -> None:
    prompt = place.project / "prompt.txt"
    prompt.write_text("say hello")
    words = place.words("exec", "-a", "scripted", "--output", "events", "--hold", "--file", str(prompt))
    with subprocess.Popen(
        words, cwd=place.project, env=place.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for line in program.stdout:
            if json.loads(line)["event"] == "result":
                break
        assert any("scripted" in each for each in place.leftovers()[1:]), place.leftovers()
        assert program.poll() is None
        program.stdin.close()
        assert program.wait(30) == 0
    place.assert_clean()


def test_the_prompt_has_to_be_in_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    assert main(["exec", "-a", "scripted", "--hold", "say hello"]) == 2
    assert "--hold --file PROMPT.md" in capsys.readouterr().err
