"""`dragoman exec` without a named agent: the built-in one."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.exec_kit import Place, place

__all__ = ["place"]


def test_without_a_name_the_built_in_agent_runs_and_a_script_is_marked_as_one(place: Place) -> None:
    done = place.run("--model", "scripted", "--output", "json", "say hello")
    assert done.code == 0, done.err
    assert done.result["text"] == "hello"
    assert done.result["scripted"] is True
    assert done.result["agent"]["name"] == "dragoman"
    assert done.result["agent"]["command"][1:] == ["-P", "-m", "dragoman", "agent", "--model", "scripted"]


@pytest.mark.parametrize("name", ["dragoman", "Dragoman"])
def test_the_built_in_agent_has_a_name(place: Place, name: str) -> None:
    """Also where the user's default is another agent."""
    settings = place.home / "dragoman" / "config" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"default_agent": "scripted"}))
    done = place.run("-a", name, "--model", "scripted", "--output", "json", "say hello")
    assert done.code == 0, done.err
    assert done.result["text"] == "hello"
    assert done.result["agent"]["command"][1:] == ["-P", "-m", "dragoman", "agent", "--model", "scripted"]


@pytest.mark.parametrize("name", ["dragoman", "scripted"])
def test_a_file_of_the_project_is_never_imported_by_an_agent_of_ours(place: Place, name: str) -> None:
    """Python looks for modules in the current folder first, unless it is started with -P."""
    folder = place.home / "their-project"
    folder.mkdir()
    for module in ("queue", "asyncio", "msgspec", "sqlite3"):
        (folder / f"{module}.py").write_text("open('ran', 'w').close()\n")
    model = ("--model", "scripted") if name == "dragoman" else ()
    done = place.run("-a", name, *model, "--cwd", str(folder), "say hello")
    assert done.code == 0, done.err
    assert not (folder / "ran").exists()


def test_the_event_of_the_session_states_that_a_script_is_played(place: Place) -> None:
    events = place.run("--model", "scripted", "--output", "events", "say hello").events
    assert [event["scripted"] for event in events if event["event"] == "session"] == [True]


@pytest.mark.convention("first run", "exec")
def test_without_a_model_the_code_is_7_and_the_hint_names_what_to_set(place: Place) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        place.environment.pop(name, None)
    done = place.run("--output", "json", "say hello")
    assert done.code == 7
    assert "no model is named" in done.err
    hint = done.result["error"]["hint"]  # one command; an agent of this machine may be ready
    assert hint == "dragoman agent login" or hint.startswith("dragoman exec -a "), hint


def test_the_default_agent_of_the_user_comes_before_the_built_in_agent(place: Place) -> None:
    settings = place.home / "dragoman" / "config" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"default_agent": "scripted"}))
    done = place.run("--output", "json", "say hello")
    assert done.result["agent"]["name"] == "scripted", done.err


def test_a_session_is_stored_and_can_be_resumed(place: Place) -> None:
    first = place.run("--model", "scripted", "--output", "json", "say one").result
    again = place.run("--model", "scripted", "--output", "json", "--resume", "last", "say two").result
    assert again["session_id"] == first["session_id"]
    assert again["text"] == "two"


def test_a_write_needs_a_rule_that_allows_it(place: Place) -> None:
    done = place.run("--model", "scripted", "--output", "json", "write new.txt text")
    assert done.code == 5
    assert not (place.project / "new.txt").exists()
    allowed = place.run("--model", "scripted", "--output", "json", "--allow", "edit:new.txt", "write new.txt text")
    assert allowed.code == 0, allowed.err
    assert (place.project / "new.txt").read_text() == "text"
    assert [change["change"] for change in allowed.result["files_changed"]] == ["created"]


def test_the_model_and_mode_of_the_settings_are_used_where_no_flag_says_otherwise(place: Place) -> None:
    settings = place.home / "dragoman" / "config" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"model": "scripted", "mode": "plan"}))
    done = place.run("--output", "json", "--allow", "*", "write new.txt text\nsay {result}")
    assert done.code == 0, done.err
    assert "plan only reads" in done.result["text"]
    settings.write_text(json.dumps({"model": "scripted", "mode": "wild"}))
    broken = place.run("say hello")
    assert broken.code == 4
    assert "there is no mode 'wild'" in broken.err


def test_no_rule_answers_a_question_of_the_agent(place: Place) -> None:
    script = "question Drop the table? | Yes, drop it | No\nsay {result}"
    for flags in (("--allow", "*"), ("--mode", "full", "--allow", "*"), ()):
        done = place.run("--model", "scripted", "--output", "json", *flags, script)
        assert done.code == 0, done.err
        assert "The user answered" not in done.out
        assert done.result["text"] == "Drop the table?\n\n- Yes, drop it\n- No"
        assert done.result["permissions"] == []
        assert done.result["stop_reason"] == "end_turn"


def test_the_next_prompt_answers_a_question(place: Place) -> None:
    first = place.run("--model", "scripted", "--output", "json", "question Which name?\nsay not reached")
    assert first.result["text"] == "Which name?"
    again = place.run("--model", "scripted", "--output", "json", "--resume", "last", "Call it otter")
    assert again.code == 0, again.err
    assert again.result["session_id"] == first.result["session_id"]
    assert again.result["text"] == "Call it otter"


def test_the_model_reads_that_no_user_could_be_asked_and_which_rule_would_do(place: Place) -> None:
    done = place.run("--model", "scripted", "--output", "json", "write new.txt text\nsay {result}")
    assert done.code == 5
    assert "no user can be asked" in done.result["text"]
    assert "`edit:new.txt`" in done.result["text"]
    assert "user refused" not in done.result["text"]


def test_the_model_reads_which_rule_of_the_run_refused(place: Place) -> None:
    script = "run echo hi\nsay {result}"
    done = place.run("--model", "scripted", "--output", "json", "--deny", "execute:echo *", script)
    assert done.code == 0, done.err
    assert "denied by rule execute:echo * (--deny)" in done.result["text"]
    assert "user refused" not in done.result["text"]


def test_mode_full_needs_no_other_rule(place: Place) -> None:
    script = "run find . -name '*.py' | head -3\nwrite new.txt text\nsay {result}"
    done = place.run("--model", "scripted", "--output", "json", "--mode", "full", script)
    assert done.code == 0, done.err
    assert (place.project / "new.txt").read_text() == "text"
    assert {each["decided_by"] for each in done.result["permissions"]} == {"rule * (mode full)"}
    assert "warning: the agent is in its mode full, in which it acts without asking" in done.err


def test_mode_edit_allows_edits_in_the_project_and_nothing_else(place: Place) -> None:
    script = "write new.txt text\nrun touch other.txt\nwrite ../outside.txt text"
    done = place.run("--model", "scripted", "--output", "json", "--mode", "edit", script)
    assert done.code == 5
    assert (place.project / "new.txt").read_text() == "text"
    assert not (place.project / "other.txt").exists()
    assert not (place.project.parent / "outside.txt").exists()


def test_a_deny_and_a_protected_file_stop_mode_full(place: Place) -> None:
    script = "write new.txt text\nwrite .git/hooks/pre-commit text"
    done = place.run("--model", "scripted", "--output", "json", "--mode", "full", "--deny", "edit:new.txt", script)
    assert done.code == 5
    assert not (place.project / "new.txt").exists()
    assert not (place.project / ".git").exists()


@pytest.mark.convention("mode", "exec")
def test_the_mode_of_another_agent_is_not_a_rule(place: Place) -> None:
    done = place.run("--mode", "full", "--output", "json", "go", odd="writes-in-mode-full")
    assert done.code == 5, done.err
    assert not (place.project / "new.txt").exists()


def test_dangerously_allow_all_covers_protected_files_and_is_reported(place: Place) -> None:
    script = "write .git/hooks/pre-commit text\nrun touch .envrc && ls\nsay {result}"
    done = place.run("--model", "scripted", "--output", "json", "--dangerously-allow-all", script)
    assert done.code == 0, done.err
    assert (place.project / ".git" / "hooks" / "pre-commit").exists()
    assert (place.project / ".envrc").exists()
    assert done.result["dangerously_allow_all"] is True
    decided = {each["decided_by"] for each in done.result["permissions"]}
    assert decided - {"grant"} == {"--dangerously-allow-all"}
    assert done.err.count("everything the agent asks for is allowed") == 1


def test_dangerously_allow_all_leaves_denies_and_questions_alone(place: Place) -> None:
    flags = ("--model", "scripted", "--output", "json", "--dangerously-allow-all", "--deny", "edit:kept.txt")
    done = place.run(*flags, "write kept.txt text\nwrite new.txt text\nquestion Drop it? | Yes | No")
    assert done.code == 0, done.err
    assert not (place.project / "kept.txt").exists()
    assert (place.project / "new.txt").exists()
    assert done.result["text"] == "Drop it?\n\n- Yes\n- No"
    assert place.run("--model", "scripted", "--output", "json", "say hi").result["dangerously_allow_all"] is False


def test_fail_on_deny_makes_a_denied_request_a_failure(place: Place) -> None:
    words = ("--model", "scripted", "--output", "json", "--deny", "edit:new.txt", "write new.txt text")
    assert place.run(*words).code == 0
    done = place.run("--fail-on-deny", *words)
    assert done.code == 9
    assert done.result["error"]["kind"] == "denied"
    assert "rule edit:new.txt (--deny)" in done.result["error"]["message"]
    assert place.run("--fail-on-deny", *words[:-1], "say hi").code == 0


HINTS = {
    "write new.txt text": "--allow edit:new.txt",
    "run npm test": "--allow 'execute:npm test'",
    "run echo $(date) > a": "--allow 'execute:*'",
    "write .git/hooks/pre-commit text": "no rule can allow it",
}


@pytest.mark.parametrize("script", HINTS)
def test_a_hint_names_a_rule_that_works_or_states_that_none_does(place: Place, script: str) -> None:
    done = place.run("--model", "scripted", "--output", "json", script)
    assert done.code == 5
    hint = done.result["error"]["hint"]
    assert HINTS[script] in hint
    if "--allow" in hint:
        flag, rule, *_ = shlex.split(hint[hint.index("--allow") :].partition(" (")[0])
        assert place.run("--model", "scripted", "--output", "json", flag, rule, script).code == 0


def test_the_rule_safe_allows_commands_that_only_read(place: Place) -> None:
    agent = ("--", sys.executable, "-m", "dragoman", "agent", "--model", "scripted", "--no-safe-commands")
    assert place.run("run ls | head -n 3", *agent).code == 5
    done = place.run("--allow", "safe", "--output", "json", "run ls | head -n 3", *agent)
    assert done.code == 0, done.err
    assert {decision["action"] for decision in done.result["permissions"]} == {"allow"}
    assert place.run("--allow", "safe", "run touch made", *agent).code == 5


def test_the_result_has_the_tokens_of_the_turn_in_all_parts(place: Place) -> None:
    used = place.run("--model", "scripted", "--output", "json", "todo a; b\nsay hello").result["usage"]
    parts = [used[f"{name}_tokens"] for name in ("input", "output", "thought", "cached_read", "cached_write")]
    assert all(isinstance(part, int) for part in parts)
    assert used["total_tokens"] == sum(parts) > 0
    assert used["input_tokens"] > used["context_used"]  # the sum of two calls, not the last one
    assert used["cost"] is None  # a script has no price


@pytest.mark.parametrize(
    ("rules", "is_run"),
    [(("--allow", "mcp:play"), True), (("--allow", "mcp:other"), False)],
)
def test_rules_about_mcp_servers_cover_the_tools_that_the_built_in_agent_calls(
    place: Place, rules: tuple[str, ...], is_run: bool
) -> None:
    """Also those that may change something: the agent names the server and the tool with the call."""
    server = str(Path(__file__).parents[1] / "builtin" / "mcp" / "scripted_server.py")
    config = {"mcpServers": {"play": {"command": sys.executable, "args": [server, "stdio"]}}}
    (place.project / "mcp.json").write_text(json.dumps(config))
    words = ("--model", "scripted", "--mcp-config", "mcp.json", "--output", "json", *rules)
    done = place.run(*words, "call play_wipe {}\nsay {result}")
    assert ("wiped" in done.result["text"]) is is_run, done.err
