"""`dragoman agent import`, as a user runs it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from dragoman.cli.commands import agent_import
from dragoman.foreign.proposal import KINDS, PROGRAMS, STATES
from dragoman.settings import RuleFile, load_settings
from tests.cli.exec_kit import Done, Place, place
from tests.cli.terminal_kit import at_terminal
from tests.foreign.homes import CLAUDE, KEYS, PROJECT, build_home, write

__all__ = ["place"]


def run(place: Place, *words: str) -> Done:
    return place.run("import", *words, verb="agent")


def config(place: Place) -> Path:
    return place.home / "dragoman" / "config"


def is_clean(place: Place, done: Done) -> bool:
    files = [path.read_text() for path in config(place).rglob("*") if path.is_file()]
    return not [key for key in KEYS for text in (done.out, done.err, *files) if key in text]


def test_a_dry_run_shows_everything_and_writes_nothing(place: Place) -> None:
    build_home(place.home)
    done = run(place, "--dry-run")
    assert done.code == 0, done.err
    assert not config(place).exists()
    assert is_clean(place, done)
    for line in ("MCP servers", "~/.claude.json:5", "-> deny read:secrets/**, search:secrets/**", "ready to import"):
        assert line in done.out
    assert "dragoman rules add --allow 'execute:cargo build *' --everywhere" in done.out
    assert "broken.toml: is not TOML and is left out" in done.err


def test_without_a_terminal_nothing_is_imported_unless_the_user_is_sure(place: Place) -> None:
    write(place.home, CLAUDE)
    done = run(place)
    assert done.code == 2
    assert "stdin is not a terminal" in done.err
    assert not config(place).exists()
    done = run(place, "claude", "--yes")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1].endswith("not expressible")
    assert is_clean(place, done)
    settings = load_settings(config(place))
    # Neither the one that could permit calls, nor the one with a key.
    assert [hook.event for hook in settings.user.hooks] == [
        *("PostToolUse", "PostToolUseFailure", "SubagentStart", "SubagentStop")
    ]
    assert {rule.action for rule in RuleFile(config(place) / "rules.json").rules()} == {"deny", "ask"}


def test_the_document_for_programs_has_every_proposal(place: Place) -> None:
    build_home(place.home)
    done = run(place, "gemini", "--json", "--only", "rules,mcp")
    found = json.loads(done.out)
    assert done.code == 0
    assert not config(place).exists()
    assert found.keys() == {"scope", "dry_run", "proposals", "problems", "summary"}
    assert found["dry_run"] is True
    assert {each["kind"] for each in found["proposals"]} == {"rules", "mcp"}
    assert {each["state"] for each in found["proposals"]} <= STATES.keys()
    members = {"program", "kind", "name", "scope", "source", "line", "state", "becomes", "notes", "command"}
    assert all(each.keys() == members for each in found["proposals"])
    assert sum(found["summary"].values()) == len(found["proposals"])
    done = run(place, "gemini", "--json", "--only", "mcp", "--yes")
    assert json.loads(done.out)["summary"]["imported"] == 1
    assert "search" in load_settings(config(place)).user.mcp_servers


def test_a_project_gets_proposals_in_its_own_folder(place: Place) -> None:
    (place.project / ".git").mkdir()
    write(place.project, PROJECT)
    done = run(place, "--project", "--yes")
    assert done.code == 0, done.err
    assert (place.project / ".dragoman" / "commands" / "deploy.md").exists()
    assert list(load_settings(config(place), place.project).proposed_mcp_servers()) == ["local"]
    assert load_settings(config(place), place.project).hooks() == ()
    assert is_clean(place, done)
    assert "dragoman agent import --project" in run(place, "--dry-run").err


def test_at_a_terminal_each_kind_each_allow_and_each_key_is_asked_about(place: Place) -> None:
    key = KEYS[1]
    files = {
        ".claude/CLAUDE.md": "Be brief.\n",
        ".claude/commands/ship.md": "Ship $1\n",
        ".claude.json": json.dumps({"mcpServers": {"gh": {"command": "gh-mcp", "env": {"GH_TOKEN": key}}}}),
        ".claude/settings.json": json.dumps(
            {"permissions": {"deny": ["Bash(rm:*)"], "allow": ["Bash(npm test)", "Bash(make:*)"]}}
        ),
    }
    write(place.home, files)
    with at_terminal(place, "agent", "import") as terminal:
        for question, answer in (
            ("Import 1 instruction? [y/N] ", "y"),
            ("Import 1 command? [y/N] ", "n"),
            ("Import 1 MCP server? [y/N] ", "y"),
            ("Store the keys of gh (GH_TOKEN)", "y"),
            ("Import 1 permission rule? [y/N] ", "y"),
            ("Allow execute:npm test without asking? [y/N] ", "y"),
            ("Allow execute:make * without asking? [y/N] ", ""),
        ):
            terminal.until(question)
            terminal.type(f"{answer}\n")
        assert terminal.wait() == 0
    assert "+Be brief." in terminal.text
    assert "4 imported, 1 ready to import, 1 left for you to decide" in terminal.text
    assert key not in terminal.text
    assert not (config(place) / "commands").exists()
    assert load_settings(config(place)).user.mcp_servers["gh"]["env"] == {"GH_TOKEN": key}
    assert (config(place) / "settings.json").stat().st_mode & 0o077 == 0
    kept = {(rule.action, rule.text) for rule in RuleFile(config(place) / "rules.json").rules()}
    assert kept == {("deny", "execute:rm *"), ("allow", "execute:npm test")}


def test_the_command_that_is_shown_adds_the_rule(place: Place) -> None:
    write(place.home, {".claude/settings.json": '{"permissions": {"allow": ["Bash(npm run:*)", "Edit(src/**)"]}}'})
    found = json.loads(run(place, "claude", "--json").out)
    for proposal in found["proposals"]:
        program, verb, *words = shlex.split(proposal["command"])
        assert program == "dragoman"
        assert place.run(*words, verb=verb).code == 0
    again = json.loads(run(place, "claude", "--json").out)
    assert [each["state"] for each in again["proposals"]] == ["present", "present"]


def test_wrong_words_are_refused_with_the_right_ones(place: Place) -> None:
    for words, said in (
        (("vim",), "name claude, codex, opencode, gemini"),
        (("--only", "themes"), "the kinds are instructions, commands"),
    ):
        done = run(place, *words)
        assert done.code == 2
        assert said in done.err
    done = place.run("--model", "scripted", "import", verb="agent")
    assert done.code == 2
    assert "dragoman agent import" in done.err


def test_settings_that_cannot_be_read_are_an_error_and_stay(place: Place) -> None:
    write(place.home, CLAUDE)
    write(config(place), {"settings.json": "{broken"})
    done = run(place, "--yes")
    assert done.code == 2
    assert "settings.json:1:2" in done.err
    assert (config(place) / "settings.json").read_text() == "{broken"


def test_without_files_of_others_it_says_so(place: Place) -> None:
    done = run(place)
    assert (done.code, done.out) == (0, "")
    assert "no files of other agents were found" in done.err


def test_the_help_teaches_and_names_what_there_is(place: Place) -> None:
    done = run(place, "--help")
    assert done.out.startswith("usage: dragoman agent import ")
    assert "Permission never becomes wider." in " ".join(done.out.split())
    assert agent_import.KINDS == KINDS
    assert agent_import.PROGRAMS == PROGRAMS


def test_text_of_their_files_cannot_act_on_the_terminal(place: Place) -> None:
    evil = "\x1b]0;owned\x07\u202e"
    settings = {
        "model": evil,
        "permissions": {"deny": [f"Bash({evil}:*)", f"Read({evil})", f"{evil}(x)"], "defaultMode": evil},
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"echo {evil}"}]}], evil: [1]},
    }
    files = {
        ".claude/settings.json": json.dumps(settings),
        ".claude.json": json.dumps({"mcpServers": {evil: {"command": "x"}, "y": {"command": evil, evil: 1}}}),
        ".claude/commands/x.md": f"---\ndescription: {evil}\n{evil}: 1\n---\n!`{evil}`\n",
        f".claude/commands/a{evil}.md": "x",
    }
    write(place.home, files)
    for words in (("--dry-run",), ("--json",), ("--yes",)):
        done = run(place, *words)
        assert done.code == 0, done.err
        assert not {"\x1b", "\x07", "\u202e"} & set(done.out + done.err), words
