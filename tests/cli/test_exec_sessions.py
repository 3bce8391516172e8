"""What `dragoman exec` sets up before the turn: agent, session, mode, model, options, folders, servers, rules."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from pathlib import Path

import pytest

from dragoman.testing.memory import PIXEL
from tests.cli.exec_kit import ODD_AGENT, Place, place

__all__ = ["place"]


def frames(place: Place, *words: str, odd: str | None = None) -> list[dict[str, object]]:
    """The messages of a successful run."""
    done = place.run(*words, "--output", "raw", odd=odd)
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def sent(messages: list[dict[str, object]], method: str) -> list[dict[str, object]]:
    return [message["params"] for message in messages if message.get("method") == method]  # type: ignore[misc]


def configure(place: Place, **settings: object) -> None:
    folder = place.home / "dragoman" / "config"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(settings))


def test_the_command_after_the_dashes_is_taken_verbatim(place: Place) -> None:
    program = "import sys; print(sys.argv[1:], file=sys.stderr); sys.exit(5)"
    done = place.run("x", "--output", "json", "--", sys.executable, "-c", program, "--output", "raw", "--", "-a")
    assert done.result["error"]["stderr_tail"] == "['--output', 'raw', '--', '-a']\n"


def test_an_agent_of_the_settings_is_started_with_its_environment(place: Place) -> None:
    program = "import os, sys; sys.exit(os.environ['GREETING'])"
    configure(
        place, agent_servers={"mine": {"command": sys.executable, "args": ["-c", program], "env": {"GREETING": "hey"}}}
    )
    done = place.run("-a", "mine", "x", "--output", "json")
    assert done.code == 4
    assert done.result["error"]["stderr_tail"] == "hey\n"
    assert done.result["agent"]["name"] == "mine"


def test_the_default_agent_is_used_when_none_is_named(place: Place) -> None:
    entry = {"command": sys.executable, "args": ["-IS", str(ODD_AGENT), "plain"]}
    configure(place, agent_servers={"mine": entry}, default_agent="mine")
    assert place.run("hello").out == "hello\n"


def test_the_agent_is_started_in_the_folder_it_works_in(place: Place) -> None:
    (place.project / "sub").mkdir()
    messages = frames(place, "x", "--cwd", "sub", odd="plain")
    assert [params["cwd"] for params in sent(messages, "session/new")] == [str(place.project / "sub")]


def test_a_prompt_from_stdin_and_from_a_file(place: Place) -> None:
    assert place.run(odd="plain", stdin="from stdin").out == "from stdin\n"
    assert place.run("-", odd="plain", stdin="from stdin").out == "from stdin\n"
    (place.project / "prompt.md").write_text("from a file\n")
    assert place.run("--file", "prompt.md", odd="plain").out == "from a file\n"


def test_a_mentioned_file_goes_along(place: Place) -> None:
    (place.project / "notes.txt").write_text("milk\n")
    [prompt] = sent(frames(place, "-a", "scripted", "Read @notes.txt"), "session/prompt")
    assert [block["type"] for block in prompt["prompt"]] == ["text", "resource"]  # type: ignore[attr-defined]
    [prompt] = sent(frames(place, "Read @notes.txt", odd="plain"), "session/prompt")
    assert [block["type"] for block in prompt["prompt"]] == ["text", "resource_link"]  # type: ignore[attr-defined]


def test_a_mention_outside_the_folder_stays_text_and_says_so(place: Place, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("swordfish\n")
    done = place.run("Read @../secret.txt", "--output", "raw", odd="plain")
    assert "swordfish" not in done.out
    assert "@../secret.txt is sent as text" in done.err


def test_an_image_is_attached_if_the_agent_takes_it(place: Place) -> None:
    (place.project / "a.png").write_bytes(base64.b64decode(PIXEL))
    [prompt] = sent(frames(place, "-a", "scripted", "What?", "--image", "a.png"), "session/prompt")
    assert prompt["prompt"][1]["data"] == PIXEL  # type: ignore[index]
    done = place.run("What?", "--image", "a.png", odd="plain")
    assert done.code == 2
    assert "this agent does not accept images" in done.err


def test_mode_and_options_are_set_before_the_prompt(place: Place) -> None:
    words = ("--mode", "Code", "--set", "voice=loud", "--set", "verbose=true")
    messages = frames(place, "-a", "scripted", "x", *words)
    order = [message.get("method") for message in messages if "method" in message]
    assert order.index("session/set_config_option") < order.index("session/prompt")
    # The agent has modes, too; they are for clients that know no options.
    assert sent(messages, "session/set_mode") == []
    assert [(each["configId"], each["value"]) for each in sent(messages, "session/set_config_option")] == [
        ("mode", "code"),
        ("voice", "loud"),
        ("verbose", True),
    ]


def test_a_mode_that_is_set_already_is_not_set_again(place: Place) -> None:
    messages = frames(place, "-a", "scripted", "x", "--mode", "ask")
    assert sent(messages, "session/set_mode") + sent(messages, "session/set_config_option") == []


@pytest.mark.parametrize("name", ["large-2", "Large", "large"])
def test_a_model_is_chosen_the_old_way_where_that_is_the_only_one(name: str, place: Place) -> None:
    messages = frames(place, "x", "--model", name, odd="has-legacy-models")
    assert sent(messages, "session/set_model") == [{"sessionId": "s", "modelId": "large-2"}]


def test_an_unknown_model_is_refused_with_those_there_are(place: Place) -> None:
    done = place.run("x", "--model", "huge", odd="has-legacy-models")
    assert done.code == 2
    assert "hint: it offers: small, large-2" in done.err


def test_added_folders_need_an_agent_that_takes_them(place: Place, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    words = ("x", "--add-dir", "../more")
    [params] = sent(frames(place, "-a", "scripted", *words), "session/new")
    assert params["additionalDirectories"] == [str(tmp_path / "more")]
    done = place.run(*words, odd="plain")
    assert done.code == 2
    assert "additionalDirectories" in done.err


@pytest.mark.rule(98)
def test_mcp_servers_reach_the_session(place: Place) -> None:
    servers = {
        "files": {"command": "env", "args": ["--root", "."], "env": {"A": "1"}},
        "web": {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"X": "y"}},
    }
    (place.project / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    [params] = sent(frames(place, "-a", "scripted", "x", "--mcp-config", "mcp.json"), "session/new")
    assert params["mcpServers"] == [
        {
            "name": "files",
            "command": shutil.which("env"),
            "args": ["--root", "."],
            "env": [{"name": "A", "value": "1"}],
        },
        {"type": "http", "name": "web", "url": "http://127.0.0.1:1/mcp", "headers": [{"name": "X", "value": "y"}]},
    ]


def test_an_agent_that_takes_no_http_servers_is_not_sent_one(place: Place) -> None:
    (place.project / "mcp.json").write_text('{"mcpServers": {"web": {"url": "http://127.0.0.1:1"}}}')
    done = place.run("x", "--mcp-config", "mcp.json", odd="plain")
    assert done.code == 2
    assert "mcpCapabilities.http" in done.err


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"mcpServers": {"x": {}}}',
        '{"mcpServers": {"x": {"command": "no-such-program"}}}',
        '{"mcpServers": {"x": {"command": "a", "url": "b"}}}',
    ],
)
def test_a_broken_mcp_file_is_wrong_usage(text: str, place: Place) -> None:
    (place.project / "mcp.json").write_text(text)
    done = place.run("-a", "scripted", "x", "--mcp-config", "mcp.json")
    assert done.code == 2
    assert "--mcp-config mcp.json: " in done.err


@pytest.mark.convention("sessions", "exec")
def test_resume_opens_the_session_without_its_history(place: Place) -> None:
    done = place.run("x", "--resume", "abc", "--output", "json", odd="remembers")
    assert (done.result["text"], done.result["session_id"]) == ("resumed abc", "abc")


def test_the_last_session_is_the_newest_of_this_folder(place: Place) -> None:
    assert place.run("x", "--resume", "last", odd="remembers").out == "resumed newest\n"


@pytest.mark.parametrize("habit", ["only-loads", "resumes-badly"])
def test_an_agent_that_cannot_resume_loads_and_the_history_is_not_the_answer(habit: str, place: Place) -> None:
    done = place.run("hello", "--resume", "s", "--output", "json", odd=habit)
    assert done.code == 0, done.err
    assert (done.result["text"], done.result["messages"]) == ("hello", ["hello"])


def test_a_history_that_comes_after_the_answer_is_waited_for_where_that_is_known(place: Place) -> None:
    entry = {"command": sys.executable, "args": ["-IS", str(ODD_AGENT), "replays-late"]}
    configure(place, agent_servers={"late": {**entry, "quirks": {"replays_late": True}}})
    done = place.run("-a", "late", "hello", "--resume", "s", "--output", "json")
    assert done.code == 0, done.err
    assert done.result["messages"] == ["hello"]


def test_an_agent_that_can_do_neither_is_wrong_usage(place: Place) -> None:
    done = place.run("x", "--resume", "s", odd="plain")
    assert done.code == 2
    assert "can neither resume nor load" in done.err


def test_a_session_that_is_gone_is_the_agents_error(place: Place) -> None:
    assert place.run("-a", "scripted", "x", "--resume", "gone").code == 1


def test_a_policy_file_decides_like_flags(place: Place) -> None:
    (place.project / "policy.json").write_text('{"allow": ["delete"]}')
    done = place.run("-a", "scripted", "permission", "--policy", "policy.json", "--output", "json")
    assert done.code == 0
    [decision] = done.result["permissions"]
    assert (decision["action"], decision["rule"]) == ("allow", "delete")
    assert "policy.json" in done.err


@pytest.mark.parametrize("text", ['{"allow": ["*"]}', '{"allows": []}', '{"allow": "delete"}', "{"])
def test_a_policy_file_cannot_allow_everything_nor_be_misread(text: str, place: Place) -> None:
    (place.project / "policy.json").write_text(text)
    done = place.run("-a", "scripted", "permission", "--policy", "policy.json")
    assert done.code == 2
    assert "policy.json" in done.err


def test_everything_can_be_allowed_only_by_typing_it(place: Place) -> None:
    assert place.run("-a", "scripted", "permission", "--allow", "*").out == "allowed (allow)\n"


def test_a_deny_beats_an_allow(place: Place) -> None:
    done = place.run("-a", "scripted", "permission", "--allow", "*", "--deny", "delete")
    assert (done.code, done.out) == (0, "not allowed (reject)\n")


def test_a_remembered_rule_decides(place: Place) -> None:
    assert place.run("add", "--allow", "delete", verb="rules").code == 0
    done = place.run("-a", "scripted", "permission", "--output", "json")
    assert done.result["permissions"][0]["rule"] == "delete"


def test_what_a_repository_allows_is_not_allowed(place: Place) -> None:
    (place.project / ".dragoman").mkdir()
    (place.project / ".dragoman" / "settings.json").write_text('{"rules": {"allow": ["delete"]}}')
    done = place.run("-a", "scripted", "permission", "--output", "json")
    assert done.code == 5
    assert "a project's file cannot allow anything" in done.err


def test_a_broken_settings_file_is_wrong_usage_with_its_place(place: Place) -> None:
    configure(place, agent_servers=[])
    done = place.run("-a", "scripted", "x")
    assert done.code == 2
    assert "settings.json:1:" in done.err
