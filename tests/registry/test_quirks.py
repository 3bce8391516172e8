"""The quirk table: how an agent is recognised, what proves an entry, and how a user overrides it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dragoman.registry.quirks import KNOWN, PLAIN, KnownAgent, programs, quirks_of
from dragoman.settings.servers import WITHHOLDABLE
from tests.registry.kit import Home

SHARED = Path(__file__).parent.parent.parent.parent / "shared"
READ = frozenset({"fs.readTextFile"})


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("gemini", "wrapper.sh"),
        ("Gemini CLI", "wrapper.sh"),
        ("x", "gemini --acp"),
        ("x", "/usr/local/bin/gemini --acp"),
        ("x", "npx -y @google/gemini-cli@latest --acp"),
        ("x", "npx --yes --package=@google/gemini-cli@0.61.0 run-it --acp"),
        ("x", "npx --package @google/gemini-cli gemini --acp"),
        ("x", "bunx @google/gemini-cli"),
        ("x", "pnpm dlx @google/gemini-cli@1.0.0 --acp"),
        ("x", "node /a/node_modules/@google/gemini-cli/bundle/index.js --acp"),
        ("x", "/a/node_modules/@google/gemini-cli/run"),
        ("x", "env GEMINI_API_KEY=x gemini --acp"),
        ("x", "/usr/bin/env -S gemini --acp"),
        ("x", "python -m dragoman guard --deny execute -- gemini --acp"),
        ("x", "dragoman guard -a gemini --deny execute"),
        ("x", "uvx dragoman record -o trace.jsonl --agent gemini"),
        ("x", "dragoman record -- dragoman translate --agent 1 -- npx @google/gemini-cli --acp"),
        ("x", "dragoman conduct link -- env A=b gemini"),
    ],
)
def test_gemini_is_recognised_by_name_or_program(name: str, command: str) -> None:
    assert quirks_of(name, tuple(command.split())).withhold == READ


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("mine", "my-agent --model gemini"),
        ("mine", "node index.js @google/gemini-cli"),
        ("geminilike", "npx other-gemini-cli"),
        ("mine", "python -m http.server gemini"),
        ("mine", "dragoman guard --deny gemini -- my-agent -a gemini"),
        ("mine", "dragoman translate --agent gemini"),
        ("mine", ""),
    ],
)
def test_others_are_not_taken_for_gemini(name: str, command: str) -> None:
    assert quirks_of(name, tuple(command.split())) is PLAIN


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("uvx --from hermes-agent[acp]==0.19 hermes-acp", {"uvx", "hermes-agent", "hermes-acp"}),
        ("python3.12 -m deepagents_acp", {"python3.12", "deepagents-acp"}),
        ("python agent.py", {"python", "agent"}),
        ("uv tool run openhands acp", {"uv", "openhands"}),
        ("python -m dragoman wrap claude", {"python", "dragoman", "claude"}),
        ("dragoman wrap my_agent:agent", {"dragoman"}),
    ],
)
def test_program_goes_by_every_name(command: str, expected: set[str]) -> None:
    assert programs(tuple(command.split())) == expected


def test_daemons_are_known_by_their_command_line_and_none_is_spared() -> None:
    assert quirks_of("cline", ("cline", "--acp")).daemons == ("--cline-hub-daemon",)
    assert quirks_of("x", ("uvx", "openhands", "acp")).daemons == ("tmux -Lopenhands",)
    assert [known.quirks.spare for known in KNOWN if known.quirks.spare] == []


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: min(known.names))
def test_every_entry_does_something_for_a_reason(known: KnownAgent) -> None:
    assert known.quirks != PLAIN
    assert known.quirks.withhold <= WITHHOLDABLE
    assert all(known.quirks.daemons)
    assert known.why
    assert known.quirks.evidence


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: min(known.names))
def test_evidence_is_there(known: KnownAgent) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} with the recordings is not here")
    name, _, number = known.quirks.evidence.partition("#")
    text = (SHARED / name).read_text()
    if number:  # a numbered note
        [note] = re.findall(rf"^{number}\. .*", text, flags=re.MULTILINE)
        assert known.names & set(re.findall(r"[\w@/-]+", note.lower()))
        assert all(word in note for word in known.quirks.daemons)


def test_recording_shows_that_gemini_fails_on_the_answer_to_its_read() -> None:
    path = SHARED / "transcripts" / "gemini.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is not here")
    assert "fs/read_text_file" in path.read_text()
    assert "fs/read_text_file" not in (path.parent / "gemini-noread.jsonl").read_text()


def test_user_overrides_member_by_member(tmp_path: Path) -> None:
    home = Home(tmp_path)
    command = {"command": "gemini", "args": ["--acp"]}
    path = home.user(
        {
            "agent_servers": {
                "gemini": command,
                "fixed": {**command, "quirks": {"withhold": []}},
                "other": {**command, "quirks": {"missing_file": "empty", "spare": ["hub"]}},
            }
        }
    )
    agents = home.load()
    assert agents.find("gemini").quirks.withhold == READ
    assert agents.find("fixed").quirks.withhold == frozenset()
    other = agents.find("other").quirks
    assert (other.withhold, other.missing_file, other.spare) == (READ, "empty", ("hub",))
    assert other.evidence.startswith(f"{path}:1:")


def test_overriding_keeps_json_lists_usable(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.user(json.dumps({"agent_servers": {"a": {"command": "a", "quirks": {"withhold": ["terminal"]}}}}))
    assert home.load().find("a").quirks.withhold == {"terminal"}
