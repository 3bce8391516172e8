"""`dragoman agents` alone, `dragoman doctor` and `dragoman help`: what a new user types first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builtin.test_local_servers import MODELS, nowhere, response, serving
from tests.cli.exec_kit import Done, Place
from tests.cli.warm_python import WarmPython


@pytest.fixture
def place(tmp_path: Path, warm_python: WarmPython) -> Place:
    found = Place(tmp_path, warm_python)
    found.environment |= nowhere()
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        found.environment.pop(name, None)
    return found


def run(place: Place, verb: str, *words: str) -> Done:
    return place.run(*words, verb=verb)


def stub(place: Place, *names: str) -> None:
    """Puts programs of these names first on the PATH."""
    folder = place.home / "bin"
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    place.environment["PATH"] = f"{folder}:{place.environment['PATH']}"


@pytest.mark.convention("agents, keys, models", "exec")
def test_agents_alone_shows_agents_keys_and_servers_and_never_a_key(place: Place) -> None:
    stub(place, "gemini", "opencode")
    place.environment |= {"OPENAI_API_KEY": "sk-never-shown", "GEMINI_API_KEY": "sk-never-shown-too"}
    with serving(response(MODELS)) as server:
        place.environment["OLLAMA_BASE_URL"] = f"http://127.0.0.1:{server.port}"
        done = run(place, "agents")
        for _ in range(20):  # an answer that a busy machine brings too late is not waited for
            if "Ollama" in done.out:
                break
            done = run(place, "agents")
        rows = json.loads(run(place, "agents", "--json").out)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == " Ready"
    assert lines[1].split() == ["gemini", "Gemini", "CLI", "key", "in", "GEMINI_API_KEY"]
    assert any("OpenAI" in line and "key in OPENAI_API_KEY" in line for line in lines)
    assert any("Ollama" in line and "qwen3:8b" in line and ", 1 more" in line for line in lines)
    assert any("opencode" in line and "not logged in" in line for line in lines)
    assert "npm, " in done.out
    assert "dragoman agents install NAME" in done.out
    assert "never-shown" not in done.out + done.err + json.dumps(rows)
    assert "\x1b" not in done.out
    starts = {line.index(word) for line in lines for word in ("Gemini CLI", "qwen3:8b", "OpenCode") if word in line}
    assert len(starts) == 1, "the columns are aligned"
    assert [row["model"] for row in rows if row["name"] == "Ollama"] in (["ollama:qwen3:8b"], [])
    assert {row["kind"] for row in rows} == {"agent", "model", "install"}


@pytest.mark.parametrize("words", [("agents", "--yes"), ("agents", "--", "x")])
def test_agents_alone_takes_no_options_of_an_action(place: Place, words: tuple[str, ...]) -> None:
    done = run(place, *words)
    assert (done.code, done.out) == (2, "")
    assert "agents without a word does not take" in done.err


def test_doctor_lists_the_built_in_agent_and_every_agent_here(place: Place) -> None:
    stub(place, "gemini")
    place.environment["ANTHROPIC_API_KEY"] = "sk-never-shown"
    done = run(place, "doctor", "--timeout", "60")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "dragoman: can work here"
    assert "  ok: model key: ANTHROPIC_API_KEY" in lines
    assert "gemini: cannot work here yet" in lines
    (failed,) = [line for line in lines if line.startswith("  missing: initialize: ")]
    assert "exit" in failed
    assert "    get it with: dragoman agents doctor gemini shows more" in lines
    assert "never-shown" not in done.out + done.err
    del place.environment["ANTHROPIC_API_KEY"]
    found = run(place, "doctor", "--json")
    assert found.code == 2
    document = json.loads(found.out)
    assert (document["ready"], [agent["name"] for agent in document["agents"]]) == (False, ["dragoman", "gemini"])


def test_help_is_a_command(place: Place) -> None:
    whole = run(place, "help")
    assert (whole.code, whole.out) == (0, run(place, "--help").out)
    assert run(place, "help", "exec").out == run(place, "exec", "--help").out
    assert run(place, "help", "agent", "import").out == run(place, "agent", "import", "--help").out
    unknown = run(place, "help", "exce")
    assert unknown.code == 2
    assert "did you mean exec?" in unknown.err
