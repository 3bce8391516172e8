"""`dragoman agent import` on homes that the real programs set up: what they wrote is found, stays bounded, and works.

Each program writes its own settings where it has a command for it; the rest is written by hand, and the program's own
list or its request to the model shows that it reads it. `make interop` installs the programs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.agents.foreign_programs import KEY, NOWHERE, WORD, ForeignHome, why_no_program
from tests.interop.model_server.server import MODEL, ModelServer

pytestmark = pytest.mark.timeout(600)  # dozens of programs are started one after the other


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Callable[[str], ForeignHome]]:
    if not os.environ.get("DRAGOMAN_REAL_AGENTS"):
        pytest.skip("real agents are driven by make interop")
    with ModelServer() as server:

        def made(name: str) -> ForeignHome:
            if reason := why_no_program(name):
                pytest.skip(reason)
            return ForeignHome(name, tmp_path, server)

        yield made


def states(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: each["state"] for name, each in found.items()}


def check_import(home: ForeignHome, expected: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Import everything that is ready; nothing is left for a second time, and no key is written."""
    assert states(home.imported("--dry-run")) == expected
    assert not home.config.exists()
    done = home.imported("--yes")
    assert states(done) == {name: "imported" if state == "ready" else state for name, state in expected.items()}
    assert states(home.imported()) == {
        name: "present" if state == "ready" else state for name, state in expected.items()
    }
    texts = [path.read_text() for path in home.config.rglob("*") if path.is_file()]
    assert not [text for text in (*texts, json.dumps(done)) if KEY in text]
    rules = home.config / "rules.json"
    assert '"allow"' not in (rules.read_text() if rules.exists() else "")
    return done


def check_server(home: ForeignHome) -> None:
    """The imported server is started and answers; its tools need permission."""
    assert home.turn('call tally_add {"a": 2, "b": 3}\nsay {result}', "--allow", "mcp:tally").endswith("sum 5")
    assert LEVEL in json.loads((home.config / "settings.json").read_text())["mcp_servers"]["tally"]["env"].items()
    done = home.dragoman(
        *("exec", "-a", "dragoman", "--model", "scripted", "--output", "json", "--deny", "mcp"),
        'call tally_add {"a": 2, "b": 3}\nsay {result}',
    )
    assert "sum 5" not in json.loads(done)["text"]


LEVEL = ("LEVEL", "1")


def test_claude_code(home: Callable[[str], ForeignHome]) -> None:
    claude = home("claude")
    claude.run("mcp", "add", "--scope", "user", "tally", "-e", "LEVEL=1", "--", *claude.mcp_words)
    header = ("--header", f"Authorization: Bearer {KEY}")
    claude.run("mcp", "add", "--scope", "user", "--transport", "http", "web", f"{NOWHERE}/mcp", *header)
    oauth = ("--client-id", "abc", "--callback-port", "4444")
    claude.run("mcp", "add", "--scope", "user", "--transport", "sse", "old", f"{NOWHERE}/sse", *oauth)
    claude.run("mcp", "add", "nearby", "--", "true")
    claude.run("mcp", "add", "--scope", "project", "shared", "--", "true")
    market = claude.sources / "market"
    (market / ".claude-plugin").mkdir(parents=True)
    (market / "demo" / ".claude-plugin").mkdir(parents=True)
    plugin = {"name": "demo", "description": "x"}
    listed = {"name": "market", "owner": {"name": "me"}, "plugins": [{**plugin, "source": "./demo"}]}
    (market / ".claude-plugin" / "marketplace.json").write_text(json.dumps(listed))
    (market / "demo" / ".claude-plugin" / "plugin.json").write_text(json.dumps({**plugin, "version": "1.0.0"}))
    claude.write(
        {
            ".claude/CLAUDE.md": f"{WORD}\n",
            ".claude/commands/greet.md": (
                "---\ndescription: Greets\nargument-hint: NAME\nallowed-tools: Bash(echo:*)\n---\nsay Hello $1\n"
            ),
            ".claude/agents/reviewer.md": (
                "---\nname: reviewer\ndescription: Reviews changes, after edits\ntools: Read, mcp__tally__add\n"
                "permissionMode: plan\n---\nYou review.\n"
            ),
            ".claude/skills/notes/SKILL.md": (claude.skill("notes") / "SKILL.md").read_text(),
            ".claude/settings.json": json.dumps(
                {
                    "permissions": {
                        "deny": ["Bash(git push:*)", "Read(./secrets/**)"],
                        "ask": ["Bash(npm publish:*)"],
                        "allow": ["Bash(npm test)"],
                        "defaultMode": "acceptEdits",
                    },
                    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "touch stopped"}]}]},
                    "model": "opus",
                }
            ),
        }
    )
    claude.run("plugin", "marketplace", "add", str(market))
    claude.run("plugin", "install", "demo@market")
    assert "tally: " in claude.run("mcp", "list")
    body = claude.asked("-p", "Hello")
    for word in (WORD, "greet", "Reviews changes", "About notes", "mcp__tally__add"):
        assert word in body, word
    assert (claude.work / "stopped").exists()

    done = check_import(
        claude,
        {
            "instructions ~/.claude/CLAUDE.md": "ready",
            "commands greet": "ready",
            "skills skills": "native",
            "agents reviewer": "ready",
            "mcp tally": "ready",
            "mcp web": "ready",
            "mcp old": "ready",
            "mcp nearby": "impossible",
            "hooks Stop: touch stopped": "ready",
            "rules deny Bash(git push:*)": "ready",
            "rules deny Read(./secrets/**)": "ready",
            "rules ask Bash(npm publish:*)": "ready",
            "rules allow Bash(npm test)": "manual",
            "rules defaultMode acceptEdits": "impossible",
            "model opus": "impossible",
            "plugins demo@market": "impossible",
        },
    )
    assert str(claude.work) in done["mcp nearby"]["becomes"]
    check_server(claude)
    (claude.work / "stopped").unlink()
    assert claude.turn("/greet you") == "Hello you"
    assert (claude.work / "stopped").exists(), "the hook ran"
    assert "marmalade-notes" in claude.turn('call skill {"name": "notes"}\nsay {result}')
    # Its declaration bounds it: it has no tool to run commands.
    assert "not" in claude.turn("task reviewer run touch ran\\nsay not run\nsay {result}", "--allow", "*")
    assert not (claude.work / "ran").exists()
    body = claude.question()
    for word in (WORD, "reviewer: Reviews changes", "About notes", "tally_add"):
        assert word in body, word
    # Of the project: a proposal, which nothing starts.
    assert states(claude.imported("--project", "--yes"))["mcp shared"] == "imported"
    assert "shared" in (claude.work / ".dragoman" / "settings.json").read_text()


def test_codex(home: Callable[[str], ForeignHome]) -> None:
    codex = home("codex")
    codex.write(
        {
            ".codex/config.toml": f"""\
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "never"
developer_instructions = "Be brief, say the developers."

[model_providers.scripted]
name = "scripted"
base_url = "{codex.server.url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[[skills.config]]
path = "{codex.home}/.codex/skills/quiet/SKILL.md"
enabled = false

[mcp_servers.few]
command = "true"
enabled_tools = ["look"]

""",
            ".codex/AGENTS.md": f"{WORD}\n",
            ".codex/prompts/greet.md": "say Hello $1\n",
            ".codex/agents/tester.toml": (
                'name = "tester"\ndescription = "Runs tests, after edits"\nsandbox_mode = "read-only"\n'
                'developer_instructions = "You run tests."\n'
            ),
            ".codex/rules/default.rules": (
                'prefix_rule(pattern = ["git", "push"], decision = "forbidden")\n'
                'prefix_rule(pattern = ["cargo", "build"], decision = "allow")\n'
            ),
            ".codex/skills/notes/SKILL.md": (codex.skill("notes") / "SKILL.md").read_text(),
            ".codex/skills/quiet/SKILL.md": (codex.skill("quiet") / "SKILL.md").read_text(),
        }
    )
    codex.run("mcp", "add", "tally", "--env", "LEVEL=1", "--", *codex.mcp_words)
    token = ("--bearer-token-env-var", "WEB_TOKEN", "--oauth-client-id", "abc")
    codex.run("mcp", "add", "web", "--url", f"{NOWHERE}/mcp", *token)
    market = codex.sources / "market"
    (market / ".agents" / "plugins").mkdir(parents=True)
    (market / "demo" / ".codex-plugin").mkdir(parents=True)
    policy = {"installation": "AVAILABLE", "authentication": "ON_INSTALL"}
    plugin = {"name": "demo", "source": {"source": "local", "path": "./demo"}, "policy": policy, "category": "x"}
    (market / ".agents" / "plugins" / "marketplace.json").write_text(
        json.dumps({"name": "market", "plugins": [plugin]})
    )
    manifest = {"name": "demo", "version": "1.0.0", "description": "x"}
    (market / "demo" / ".codex-plugin" / "plugin.json").write_text(json.dumps(manifest))
    codex.run("plugin", "marketplace", "add", str(market))
    codex.run("plugin", "add", "demo@market")
    assert "tally" in codex.run("mcp", "list")
    body = codex.asked("exec", "--skip-git-repo-check", "Hello")
    for word in (WORD, "About notes", "say the developers"):
        assert word in body, word
    assert "About quiet" not in body

    done = check_import(
        codex,
        {
            "instructions ~/.codex/AGENTS.md": "ready",
            "instructions developer_instructions": "impossible",
            "commands greet": "ready",
            "skills notes": "ready",
            "skills quiet": "impossible",
            "agents tester": "ready",
            "mcp few": "question",
            "mcp tally": "ready",
            "mcp web": "ready",
            "rules approval_policy never": "impossible",
            "rules deny git push": "ready",
            "rules allow cargo build": "manual",
            "model gpt-5.5": "impossible",
            "plugins demo@market": "impossible",
        },
    )
    assert done["rules allow cargo build"]["command"].startswith("dragoman rules add --allow 'execute:cargo build *'")
    check_server(codex)
    assert codex.turn("/greet you") == "Hello you"
    assert "marmalade-notes" in codex.turn('call skill {"name": "notes"}\nsay {result}')
    assert "tested" in codex.turn("task tester say tested\nsay {result}")
    body = codex.question()
    for word in (WORD, "tester: Runs tests", "About notes", "tally_add"):
        assert word in body, word


def test_gemini_cli(home: Callable[[str], ForeignHome]) -> None:
    gemini = home("gemini")
    gemini.write(
        {
            ".gemini/settings.json": json.dumps(
                {
                    "security": {"auth": {"selectedType": "gemini-api-key"}},
                    "privacy": {"usageStatisticsEnabled": False},
                    "general": {"enableAutoUpdate": False},
                    "model": {"name": "gemini-2.5-flash"},
                    "agents": {"overrides": {"idle": {"enabled": False}}},
                    "tools": {"exclude": ["web_fetch"]},
                }
            ),
            ".gemini/GEMINI.md": f"{WORD}\n",
            ".gemini/commands/git/greet.toml": 'description = "Greets"\nprompt = """say Hello {{args}}"""\n',
            ".gemini/agents/finder.md": (
                "---\nname: finder\ndescription: Finds things, when asked\ntools:\n  - read_file\n  - mcp_tally_add\n"
                "max_turns: 12\n---\nYou find.\n"
            ),
            ".gemini/agents/idle.md": "---\nname: idle\ndescription: Rests\n---\nYou rest.\n",
            ".gemini/policies/mine.toml": (
                '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "git push"\n'
                'decision = "deny"\npriority = 100\n'
            ),
            # What `/mcp disable` writes.
            ".gemini/mcp-server-enablement.json": '{"off": {"enabled": false}}',
        }
    )
    gemini.run("mcp", "add", "-s", "user", "-e", "LEVEL=1", "tally", *gemini.mcp_words)
    limits = ("--include-tools", "look", "--exclude-tools", "drop", "--trust", "-H", f"X-Api-Key: {KEY}")
    gemini.run("mcp", "add", "-s", "user", "-t", "http", *limits, "few", f"{NOWHERE}/mcp")
    gemini.run("mcp", "add", "-s", "user", "-t", "sse", "off", f"{NOWHERE}/sse")
    gemini.run("mcp", "add", "-t", "http", "shared", f"{NOWHERE}/mcp")
    for name in ("notes", "quiet"):
        gemini.run("skills", "install", str(gemini.skill(name)), "--consent")
    gemini.run("skills", "disable", "quiet", "--scope", "user")
    extension = gemini.sources / "extension"
    extension.mkdir()
    (extension / "gemini-extension.json").write_text('{"name": "maps", "version": "1.0.0"}')
    gemini.run("extensions", "link", str(extension), "--consent")
    listed = gemini.run("mcp", "list")
    assert "tally: " in listed
    assert "Disabled" in next(line for line in listed.splitlines() if "off: " in line)
    skills = gemini.run("skills", "list")
    assert "notes [Enabled]" in skills
    assert "quiet [Disabled]" in skills
    body = gemini.asked("-p", "Hello")
    for word in (WORD, "About notes", "Finds things"):
        assert word in body, word
    assert "Rests" not in body
    assert "About quiet" not in body

    done = check_import(
        gemini,
        {
            "instructions ~/.gemini/GEMINI.md": "ready",
            "commands git-greet": "ready",
            "skills notes": "ready",
            "skills quiet": "impossible",
            "agents finder": "ready",
            "agents idle": "impossible",
            "mcp tally": "ready",
            "mcp few": "question",
            "mcp off": "impossible",
            "rules deny web_fetch": "ready",
            "rules deny run_shell_command git push": "ready",
            "model gemini-2.5-flash": "ready",
            "plugins maps": "impossible",
        },
    )
    assert "trust is not carried over: its tools need permission" in done["mcp few"]["notes"]
    check_server(gemini)
    assert gemini.turn("/git-greet you") == "Hello you"
    assert "marmalade-notes" in gemini.turn('call skill {"name": "notes"}\nsay {result}')
    assert "sum 5" in gemini.turn(
        'task finder call tally_add {"a": 2, "b": 3}\\nsay {result}\nsay {result}', "--allow", "mcp:tally"
    )
    body = gemini.question()
    for word in (WORD, "finder: Finds things", "About notes", "tally_add"):
        assert word in body, word
    assert states(gemini.imported("--project", "--yes"))["mcp shared"] == "imported"


def test_opencode(home: Callable[[str], ForeignHome]) -> None:
    opencode = home("opencode")
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{opencode.server.url}/v1", "apiKey": "not-a-key"},
        "models": {MODEL: {}},
    }
    folder = opencode.home / ".config" / "opencode"
    opencode.write(
        {
            ".config/opencode/opencode.jsonc": json.dumps(
                {
                    "provider": {"scripted": provider},
                    "model": f"scripted/{MODEL}",
                    "small_model": f"scripted/{MODEL}",
                    "autoupdate": False,
                    "tools": {"webfetch": False, "tally_fail": False},
                    "permission": {"bash": {"*": "ask", "git push *": "deny", "npm test": "allow"}},
                    "skills": {"paths": [str(opencode.sources)]},
                }
            ),
            ".config/opencode/AGENTS.md": f"{WORD}\n",
            ".config/opencode/command/greet.md": "---\ndescription: Greets\nagent: build\n---\nsay Hello $1\n",
            ".config/opencode/agents/audit.md": (
                "---\ndescription: Audits, after edits\nmode: subagent\npermission:\n  edit: deny\n  bash:\n"
                '    "*": ask\n    "git diff *": allow\n---\nYou audit.\n'
            ),
            ".config/opencode/skills/team/notes/SKILL.md": (opencode.skill("notes") / "SKILL.md").read_text(),
        }
    )
    opencode.run("mcp", "add", "tally", "--env", "LEVEL=1", "--", *opencode.mcp_words)
    opencode.run("mcp", "add", "web", "--url", f"{NOWHERE}/mcp", "--header", f"Authorization=Bearer {KEY}")
    about = ("--description", "Checks style", "--mode", "subagent", "--permissions", "read,grep")
    opencode.run("agent", "create", "--path", str(folder), *about, "-m", f"scripted/{MODEL}")
    listed = opencode.run("agent", "list")
    assert "audit (subagent)" in listed
    assert "stylist (subagent)" in listed
    assert "tally" in opencode.run("mcp", "list")
    body = opencode.asked("run", "Hello")
    for word in (WORD, "About notes", "Audits, after edits", "Checks style", "tally_add"):
        assert word in body, word
    assert "tally_fail" not in body

    check_import(
        opencode,
        {
            "instructions ~/.config/opencode/AGENTS.md": "ready",
            "commands greet": "ready",
            "skills notes": "ready",
            "skills skills": "impossible",
            "agents audit": "ready",
            "agents stylist": "ready",
            "mcp tally": "ready",
            "mcp web": "ready",
            "rules deny webfetch": "ready",
            "rules deny tally_fail": "ready",
            "rules ask bash": "impossible",
            "rules deny bash git push *": "ready",
            "rules allow bash npm test": "manual",
            f"model scripted/{MODEL}": "impossible",
        },
    )
    check_server(opencode)
    assert "sum" not in opencode.turn("call tally_fail {}\nsay {result}", "--allow", "mcp")
    assert opencode.turn("/greet you") == "Hello you"
    assert "marmalade-notes" in opencode.turn('call skill {"name": "notes"}\nsay {result}')
    opencode.turn("task stylist run touch ran\\nsay not run\nsay {result}", "--allow", "*")
    opencode.turn("task audit write ran x\\nsay not written\nsay {result}", "--allow", "*")
    assert not (opencode.work / "ran").exists()
    body = opencode.question()
    for word in (WORD, "audit: Audits", "stylist: Checks style", "About notes", "tally_add"):
        assert word in body, word
