"""What the programs switch off or bound in their own ways stays so, and what has no place here is named."""

from __future__ import annotations

from pathlib import Path

from dragoman.builtin.subagents.files import read_agents
from dragoman.cli.foreign.questions import Confirmation
from dragoman.foreign.places import Places, find_places
from dragoman.foreign.proposal import KINDS, Proposal
from dragoman.foreign.reading import find_proposals
from dragoman.settings import RuleFile, load_settings
from tests.foreign.homes import write

SKILL = "---\nname: {0}\ndescription: About {0}\n---\nText.\n"


def home(folder: Path, files: dict[str, str]) -> Places:
    write(folder, files)
    return find_places("user", folder / "project", folder / "own", {"HOME": str(folder)})


def found(where: Places) -> dict[tuple[str, str], Proposal]:
    proposals = find_proposals(where, ["claude", "codex", "opencode", "gemini"], KINDS).proposals
    return {(each.kind, each.name): each for each in proposals}


def imported(where: Places) -> None:
    """Import as `--yes` does."""
    confirmation = Confirmation(where, is_sure=True, can_ask=False)
    confirmation.run(list(found(where).values()))
    assert not confirmation.has_failed


def test_a_server_with_some_of_its_tools_is_not_imported_with_all_of_them(tmp_path: Path) -> None:
    where = home(
        tmp_path,
        {
            ".codex/config.toml": '[mcp_servers.few]\ncommand = "few"\nenabled_tools = ["look", "list"]\n',
            ".gemini/settings.json": (
                '{"mcpServers": {"some": {"command": "some", "includeTools": ["find"], "env": {"API_KEY": "<GITHUB>"}},'
                ' "all": {"command": "all"}}}'
            ),
        },
    )
    few, some = found(where)["mcp", "few"], found(where)["mcp", "some"]
    assert (few.state, some.state) == ("question", "question")
    assert few.question == "Import few with all its tools, not only look, list?"
    assert some.question == "Import some with all its tools, not only find?"
    assert "Store the keys of some" in some.keys_question
    imported(where)
    assert load_settings(where.config_dir).user.mcp_servers.keys() == {"all"}


def test_what_gemini_switches_off_stays_off(tmp_path: Path) -> None:
    where = home(
        tmp_path,
        {
            ".gemini/settings.json": """{
  "mcpServers": {"Asked": {"command": "a"}, "other": {"command": "b"}, "out": {"command": "c"},
    "used": {"command": "d"}},
  "mcp": {"allowed": ["asked", "out", "used"], "excluded": ["OUT"]},
  "skills": {"disabled": ["quiet"]},
  "agents": {"overrides": {"idle": {"enabled": false}}},
  "hooksConfig": {"disabled": ["alarm"]},
  "hooks": {"AfterAgent": [{"hooks": [
    {"type": "command", "command": "bell"}, {"type": "command", "command": "siren", "name": "alarm"}]}]}
}
""",
            ".gemini/mcp-server-enablement.json": '{"asked": {"enabled": false}, "used": {"enabled": true}}',
            ".gemini/skills/quiet/SKILL.md": SKILL.format("quiet"),
            ".gemini/skills/loud/SKILL.md": SKILL.format("loud"),
            ".gemini/skills/loud/more/SKILL.md": SKILL.format("more"),
            ".gemini/skills/group/deep/SKILL.md": SKILL.format("deep"),
            ".gemini/agents/idle.md": "---\nname: idle\ndescription: Rests\n---\nRest.\n",
        },
    )
    states = {name: (each.state, each.becomes) for name, each in found(where).items()}
    assert states["mcp", "Asked"] == ("impossible", "it is switched off there (mcp-server-enablement.json)")
    assert states["mcp", "other"] == ("impossible", "it is switched off there (mcp.allowed)")
    assert states["mcp", "out"] == ("impossible", "it is switched off there (mcp.excluded)")
    assert states["mcp", "used"][0] == "ready"
    assert states["skills", "quiet"] == ("impossible", "it is switched off there")
    assert states["skills", "loud"][0] == "ready"
    assert states["skills", "deep"][0] == "ready"
    assert ("skills", "more") not in states
    assert states["agents", "idle"] == ("impossible", "it is switched off there (agents.overrides)")
    assert states["hooks", "AfterAgent: bell"][0] == "ready"
    assert states["hooks", "AfterAgent: siren"] == ("impossible", "it is switched off there")
    settings = (tmp_path / ".gemini/settings.json").read_text().replace('"disabled": ["alarm"]', '"enabled": false')
    where = home(tmp_path, {".gemini/settings.json": settings})
    assert found(where)["hooks", "hooks"].becomes == "all hooks are switched off there (hooksConfig.enabled)"
    assert ("hooks", "AfterAgent: bell") not in found(where)


def test_what_codex_switches_off_stays_off_and_the_rest_is_named(tmp_path: Path) -> None:
    where = home(
        tmp_path,
        {
            ".codex/config.toml": """
developer_instructions = "Be brief."
notify = ["bell"]
default_permissions = "careful"

[[skills.config]]
path = "/home/me/.codex/skills/quiet/SKILL.md"
enabled = false

[permissions.careful.filesystem]
":root" = "read"

[plugins."mail@market"]
enabled = true

[plugins."gone@market"]
enabled = false
""",
            ".codex/skills/quiet/SKILL.md": SKILL.format("quiet"),
        },
    )
    states = {name: each.state for name, each in found(where).items()}
    assert states == {
        ("skills", "quiet"): "impossible",
        ("instructions", "developer_instructions"): "impossible",
        ("hooks", "notify"): "impossible",
        ("rules", "default_permissions"): "impossible",
        ("plugins", "mail@market"): "impossible",
    }
    assert found(where)["plugins", "mail@market"].source.line == 13


def test_tools_that_opencode_switches_off_are_denied(tmp_path: Path) -> None:
    where = home(
        tmp_path,
        {
            ".config/opencode/opencode.json": """{
  "tools": {"bash": false, "write": false, "webfetch": false, "read": true, "tickets_*": false},
  "permission": {"webfetch": "ask"},
  "mcp": {"tickets": {"type": "local", "command": ["tickets"]}},
  "plugin": ["some-plugin@1.0", ["other-plugin", {"key": 1}]]
}
""",
            ".config/opencode/plugins/own.ts": "export {}\n",
        },
    )
    proposals = found(where)
    assert [name for kind, name in proposals if kind == "plugins"] == ["own", "some-plugin@1.0", "other-plugin"]
    imported(where)
    rules = {rule.text: rule.action for rule in RuleFile(where.config_dir / "rules.json").rules()}
    assert rules == {
        **dict.fromkeys(("execute", "edit", "delete", "move", "mcp:tickets"), "deny"),
        "fetch": "ask",
    }
    assert proposals["rules", "allow read"].state == "manual"


def test_an_agent_does_not_get_the_tools_of_servers_that_were_taken_from_it(tmp_path: Path) -> None:
    agent = "---\ndescription: Reads\n{}\n---\nRead.\n"
    where = home(
        tmp_path,
        {
            ".config/opencode/agent/reader.md": agent.format(
                'tools:\n  "tickets_*": false\n  mail_send: false\n  lsp: false'
            ),
            ".config/opencode/agent/odd.md": agent.format("tools:\n  - write\n  - edit"),
            ".config/opencode/agent/careful.md": agent.format(
                'permission:\n  edit: deny # always\n  bash:\n    "*": ask\n    "git diff*": allow\n    rm *: deny\n'
                "  list: ask"
            ),
            ".config/opencode/agent/deep.md": agent.format("permission:\n  bash:\n    git:\n      push: deny"),
        },
    )
    assert found(where)["agents", "odd"].becomes == "its tools cannot be read"
    imported(where)
    declared = read_agents(str(where.project), where.config_dir)
    assert declared.problems == ()
    assert declared.agents["reader"].denied_tools == ("tickets_*", "mail_send")
    assert set(declared.agents["careful"].denied_tools) == {"edit", "write", "apply_patch", "bash"}
    assert found(where)["agents", "deep"].becomes == "its permission cannot be read"


def test_plugins_of_claude_and_extensions_of_gemini_are_named(tmp_path: Path) -> None:
    where = home(
        tmp_path,
        {
            ".claude/settings.json": '{"enabledPlugins": {"review@market": true, "gone@market": false}}',
            ".gemini/extensions/linked/.gemini-extension-install.json": '{"source": "/x", "type": "link"}',
            ".gemini/extensions/maps/gemini-extension.json": '{"name": "maps"}',
            ".gemini/extensions/extension-enablement.json": "{}",
        },
    )
    plugins = [each for (kind, _), each in found(where).items() if kind == "plugins"]
    assert [each.name for each in plugins] == ["review@market", "linked", "maps"]
    assert {each.state for each in plugins} == {"impossible"}
