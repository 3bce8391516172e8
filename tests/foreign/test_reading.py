"""What is found in the files of four programs, and what is written of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dragoman.builtin.context.commands import read_commands
from dragoman.builtin.skills.files import find_skills
from dragoman.builtin.subagents.files import read_agents
from dragoman.cli.foreign.questions import Confirmation
from dragoman.errors import ConfigError
from dragoman.foreign.places import Places, find_places
from dragoman.foreign.proposal import KINDS, PROGRAMS, Program, Proposal, Scope
from dragoman.foreign.reading import find_proposals
from dragoman.policy import Command, Request, Rule, judge
from dragoman.settings import RuleFile, load_settings
from tests.foreign.golden import CASES, FOLDER, found_text, places
from tests.foreign.homes import KEYS, write


def found(where: Places, *programs: Program) -> list[Proposal]:
    return list(find_proposals(where, programs or PROGRAMS, KINDS).proposals)  # type: ignore[arg-type]  # all of them


def imported(where: Places, *programs: Program) -> list[Proposal]:
    """Import as `--yes` does."""
    confirmation = Confirmation(where, is_sure=True, can_ask=False)
    done = confirmation.run(found(where, *programs))
    assert not confirmation.has_failed
    return done


@pytest.mark.parametrize(("scope", "program"), CASES)
def test_what_is_found_is_what_was_recorded(scope: Scope, program: Program, tmp_path: Path) -> None:
    expected = (FOLDER / f"{scope}-{program}.json").read_text()
    assert found_text(tmp_path, scope, program) == expected, "if this is right: python -m tests.foreign.golden"


def test_no_key_is_shown_or_written(tmp_path: Path) -> None:
    where = places(tmp_path)
    done = imported(where)
    shown = json.dumps([each.shown() for each in done])
    files = [path for path in where.config_dir.rglob("*") if path.is_file()]
    assert len(files) > 15
    for text in (shown, *(path.read_text() for path in files)):
        assert [key for key in KEYS if key in text] == []


def test_a_second_import_changes_nothing(tmp_path: Path) -> None:
    where = places(tmp_path)
    imported(where)
    before = {path: path.read_bytes() for path in where.config_dir.rglob("*") if path.is_file()}
    again = found(where)
    assert {each.state for each in again} == {"question", "manual", "native", "present", "taken", "void", "impossible"}
    imported(where)
    assert {path: path.read_bytes() for path in where.config_dir.rglob("*") if path.is_file()} == before


def test_the_built_in_agent_reads_what_was_written(tmp_path: Path) -> None:
    where = places(tmp_path)
    imported(where)
    agents = read_agents(str(where.project), where.config_dir)
    assert agents.problems == ()
    assert {"reviewer", "planner", "tester", "docs", "sec-audit", "finder"} <= agents.agents.keys()
    assert agents.agents["reviewer"].tools == ("read", "grep")
    assert agents.agents["reviewer"].mode == ""
    assert agents.agents["reviewer"].description == "Reviews code: use it after edits"
    assert agents.agents["planner"].mode == "plan"
    assert set(agents.agents["docs"].denied_tools) == {"bash", "edit", "write", "apply_patch"}
    assert agents.agents["finder"].tools == ("read", "grep", "docs_search")
    commands = read_commands(str(where.project), where.config_dir)
    assert commands["fix-issue"].expand("7 now") == (
        "Status: (run `git status` and use its output)\nFix issue 7. Rules: `docs/rules.md` (read this file) 7 now"
    )
    assert commands["fix-issue"].description == "Fix an issue: carefully"
    assert commands["review"].source == "agent"
    assert commands["review-claude"].source == "user"
    assert commands["git-commit"].expand("x").endswith("\nx")
    settings = load_settings(where.config_dir, where.project)
    assert {"github", "files", "files-codex", "docs", "tickets", "search"} <= settings.user.mcp_servers.keys()
    assert {hook.event for hook, _ in settings.hooks()} == {
        *("PostToolUse", "PostToolUseFailure", "SubagentStart", "SubagentStop", "AfterAgent")
    }
    assert [hook.matcher for hook, _ in settings.hooks() if hook.event == "SubagentStart"] == ["Explore|reviewer"]
    assert [hook.timeout_seconds for hook, _ in settings.hooks() if hook.event == "AfterAgent"] == [90]
    assert (where.config_dir / "skills" / "notes" / "scripts" / "run.sh").read_text() == "echo notes\n"
    assert not (where.config_dir / "skills" / "notes" / "leak.md").exists()
    skills = find_skills(str(where.project), where.config_dir)
    assert skills.skills["notes"].description == "Takes notes: short ones"


def test_nothing_that_exists_is_overwritten_and_comments_stay(tmp_path: Path) -> None:
    where = places(tmp_path)
    own = '{\n  // mine\n  "model": "scripted",\n  "mcp_servers": {"GitHub": {"command": "mine"}}\n}\n'
    files = {
        "settings.json": own,
        "commands/fix-issue.md": "mine",
        "agents/reviewer.md": "mine",
        "AGENTS.md": "Mine.\n",
    }
    write(where.config_dir, files)
    done = {(each.kind, each.name): each for each in imported(where, "claude")}
    text = (where.config_dir / "settings.json").read_text()
    assert "// mine" in text
    servers = load_settings(where.config_dir).user.mcp_servers
    assert servers["GitHub"] == {"command": "mine"}
    assert servers["github-claude"]["url"] == "https://api.example/mcp"
    assert (where.config_dir / "commands" / "fix-issue.md").read_text() == "mine"
    assert (where.config_dir / "commands" / "fix-issue-claude.md").exists()
    assert (where.config_dir / "agents" / "reviewer.md").read_text() == "mine"
    assert (
        (where.config_dir / "AGENTS.md").read_text().startswith("Mine.\n\n<!-- imported from ~/.claude/CLAUDE.md -->")
    )
    assert "fix-issue-claude" in " ".join(done["commands", "fix-issue"].notes)


def test_a_rule_of_the_user_is_not_replaced_by_a_weaker_one(tmp_path: Path) -> None:
    where = places(tmp_path)
    rules = RuleFile(where.config_dir / "rules.json")
    rules.remember("execute:git push *", "deny")
    done = imported(where, "claude")
    assert [(rule.action, rule.text) for rule in rules.rules() if rule.text == "execute:git push *"] == [
        ("deny", "execute:git push *")
    ]
    assert next(each for each in done if each.name == "ask Bash(git push:*)").state == "taken"


def requests(project: Path, home: Path) -> list[Request]:
    """A few hundred requests of every kind."""
    root = str(project)
    programs = ["git", "npm", "rm", "cargo", "ls", "make", "python", "curl", "gh", "sudo"]
    endings = (
        "",
        " status",
        " push",
        " push --force x",
        " run build",
        " test",
        " -rf x",
        " publish",
        " build",
        " main",
    )
    lines = [f"{program}{ending}" for program in programs for ending in endings]
    lines += [f"{line} && {other}" for line, other in zip(lines, lines[7:], strict=False)]
    names = (
        "a.py",
        "src/a.py",
        ".env",
        "a/.env",
        "secrets/x",
        "package.json",
        "a/package.json",
        "docs/x.md",
        ".git/config",
    )
    found = [Request("dragoman", "execute", command=Command(line=line), root=root, home=str(home)) for line in lines]
    found += [
        Request("dragoman", kind, paths=(f"{root}/{name}",), root=root, home=str(home), is_inside=True)
        for kind in ("read", "edit", "delete", "move", "search")
        for name in names
    ]
    hosts = ("evil.example", "good.example", "docs.python.org")
    found += [Request("dragoman", "fetch", host=host, root=root, home=str(home)) for host in hosts]
    tools = [
        ("github", "create_issue"),
        ("github", "list"),
        ("docs", "drop_all"),
        ("search", "delete"),
        ("tickets", "x"),
    ]
    return [*found, *(Request("dragoman", "other", mcp=tool, root=root, home=str(home)) for tool in tools)]


def rules_of(where: Places) -> list[Rule]:
    kept = RuleFile(where.config_dir / "rules.json").rules(where.project)
    return [*kept, *load_settings(where.config_dir, where.project).rules()]


@pytest.mark.parametrize("before", [(), ("execute:git *", "edit", "fetch", "execute:npm run *", "mcp", "delete")])
def test_an_import_never_permits_more_than_before(before: tuple[str, ...], tmp_path: Path) -> None:
    where = places(tmp_path)
    for text in before:
        RuleFile(where.config_dir / "rules.json").remember(text, "allow")
    asked = requests(where.project, where.home)
    assert len(asked) > 200
    allowed_before = {at for at, each in enumerate(asked) if judge(rules_of(where), each).action == "allow"}
    imported(where)
    imported(places(tmp_path, "project"))
    verdicts = [judge(rules_of(where), each).action for each in asked]
    allowed_after = {at for at, verdict in enumerate(verdicts) if verdict == "allow"}
    assert allowed_after <= allowed_before
    assert verdicts.count("deny") > 20
    if before:
        assert allowed_after < allowed_before  # what others denied is denied
        assert allowed_after


def test_a_project_is_imported_as_proposals(tmp_path: Path) -> None:
    where = places(tmp_path, "project")
    imported(where)
    settings = load_settings(where.config_dir, where.project)
    assert settings.hooks() == ()
    assert [each.event for each in settings.proposed_hooks().values()] == ["PreToolUse"]  # type: ignore[union-attr]
    assert settings.mcp_servers() == {}
    assert list(settings.proposed_mcp_servers()) == ["local"]
    private = RuleFile(where.config_dir / "rules.json").kept()
    assert [(each.rule.text, each.project) for each in private] == [("execute:make deploy *", str(where.project))]
    assert not (where.config_dir / "settings.json").exists()


def test_nothing_is_written_through_a_link_out_of_the_project(tmp_path: Path) -> None:
    where = places(tmp_path, "project")
    outside = tmp_path / "outside"
    outside.mkdir()
    (where.project / ".dragoman").symlink_to(outside)
    confirmation = Confirmation(where, is_sure=True, can_ask=False)
    confirmation.run(found(where))
    assert confirmation.has_failed
    assert list(outside.iterdir()) == []


def test_links_that_lead_out_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    where = places(tmp_path)
    findings = find_proposals(where, ["claude"], KINDS)
    assert "linked" not in {each.name for each in findings.proposals}
    assert any("linked.md" in problem and "not followed" in problem for problem in findings.problems)


def test_the_variables_of_the_programs_name_their_folders(tmp_path: Path) -> None:
    environment = {
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "a"),
        "CODEX_HOME": str(tmp_path / "b"),
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
        "GEMINI_CLI_HOME": str(tmp_path / "d"),
    }
    files = {
        "a/CLAUDE.md": "one",
        "a/.claude.json": '{"mcpServers": {"x": {"command": "x"}}}',
        "b/AGENTS.md": "two",
        "c/opencode/AGENTS.md": "three",
        "d/.gemini/GEMINI.md": "four",
    }
    write(tmp_path, files)
    where = find_places("user", tmp_path / "project", tmp_path / "own", environment)
    assert [each.name for each in found(where)] == [
        "~/a/CLAUDE.md",
        "x",
        "~/b/AGENTS.md",
        "~/c/opencode/AGENTS.md",
        "~/d/.gemini/GEMINI.md",
    ]


def test_several_models_are_a_question_and_one_is_not(tmp_path: Path) -> None:
    where = places(tmp_path)
    assert {each.state for each in found(where) if each.kind == "model" and each.name != "opus"} == {"question"}
    one = [each for each in imported(where, "gemini") if each.kind == "model"]
    assert [each.state for each in one] == ["imported"]
    assert load_settings(where.config_dir).model == "google:gemini-3-pro"


def test_odd_files_do_not_stop_the_rest(tmp_path: Path) -> None:
    home = tmp_path / "home"
    files = {
        ".claude/settings.json": '{"permissions": {"deny": [1, "Bash(rm:*)", "", "Bash(" ]}, "hooks": [], "model": 3}',
        ".claude/commands/---.md": "x",
        ".claude.json": '{"mcpServers": {"a": 1, "b c": {"command": "x"}, "d": {"command": ["x"]}, "e": {"url": 1}}}',
        ".codex/config.toml": "mcp_servers = 3\nagents = []\nhooks = 1\nmodel = 5\n",
        ".codex/rules/a.rules": "prefix_rule(pattern=[1])\nprefix_rule()\nprefix_rule(pattern=['x'], decision=[])\n",
        ".config/opencode/opencode.json": '{"permission": {"bash": {"ls": 3, "rm *": "deny"}}, "mcp": []}',
        ".gemini/settings.json": '["not", "an", "object"]',
        ".gemini/policies/a.toml": "rule = 3\n",
    }
    write(home, files)
    os.mkfifo(home / ".gemini" / "GEMINI.md")
    (home / ".claude" / "CLAUDE.md").mkdir()
    where = find_places("user", tmp_path / "p", tmp_path / "own", {"HOME": str(home)})
    findings = find_proposals(where, PROGRAMS, KINDS)  # type: ignore[arg-type]
    assert [each.name for each in findings.proposals if each.state == "ready"] == ["deny Bash(rm:*)", "deny bash rm *"][
        :1
    ]
    assert [each.name for each in findings.proposals if each.state == "present"] == ["deny bash rm *"]
    assert len(findings.problems) == 3


def test_values_of_a_wrong_type_and_our_own_broken_settings_are_reported(tmp_path: Path) -> None:
    where = places(tmp_path)
    agent = {"description": "d", "prompt": "p", "permission": {"bash": {"*": ["deny"]}, "edit": ["deny"]}}
    write(where.opencode, {"opencode.json": json.dumps({"agent": {"odd": agent}})})
    write(where.gemini, {"settings.json": json.dumps({"context": {"fileName": ["A.md", {"b": 1}]}})})
    names = [each.name for each in found(where, "opencode", "gemini")]
    assert "odd" in names
    assert any("A.md" in name for name in names)
    write(where.config_dir, {"settings.json": json.dumps({"mcp_servers": []})})
    with pytest.raises(ConfigError, match=r"settings\.json:1:\d+: mcp_servers must be an object"):
        found(where)
