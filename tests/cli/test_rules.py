"""`dragoman rules`, from outside: what is printed where, and the exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dragoman.cli import exits


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Shell:
    """Runs `dragoman rules` in a project, with a separate home directory."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        self.file = folder / "own" / "config" / "rules.json"
        self._env = os.environ | {"DRAGOMAN_HOME": str(folder / "own"), "HOME": str(folder)}

    def __call__(self, *words: str) -> Ran:
        ran = subprocess.run(
            [sys.executable, "-m", "dragoman", "rules", *words],
            cwd=self.project,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def ships(self, **rules: list[str]) -> None:
        (self.project / ".dragoman").mkdir()
        (self.project / ".dragoman" / "settings.json").write_text(json.dumps({"rules": rules}))


@pytest.fixture
def rules(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_rule_is_added_listed_explained_and_removed(rules: Shell) -> None:
    assert rules("list", "--json").document == []
    added = rules("add", "--allow", "execute:npm test *")
    assert (added.code, added.out) == (exits.OK, "")
    assert str(rules.file) in added.err
    [row] = rules("list", "--json").document
    assert row | {"added": ""} == {
        "rule": "execute:npm test *",
        "action": "allow",
        "scope": "project",
        "project": str(rules.project),
        "added": "",
        "source": str(rules.file),
    }
    assert rules("explain", "execute", "--", "npm", "test", "x").out.startswith(
        "allow: allowed by rule execute:npm test *"
    )
    assert rules("remove", "execute:npm test *").code == exits.OK
    assert rules("explain", "execute", "--json", "--", "npm", "test").document == {
        "verdict": "ask",
        "why": "no rule allows it",
        "rule": None,
        "always": ["execute:npm test"],
        "parts": [
            {
                "words": "npm test",
                "programs": [{"program": "npm test", "kind": "project"}],
                "unknown": None,
                "project_code": ["npm test"],
                "rules": [],
            }
        ],
    }


def test_explain_shows_what_each_part_runs_and_what_is_not_known(rules: Shell) -> None:
    rules("add", "--deny", "execute:rm *")
    shown = rules("explain", "execute", "--", "ls -l; timeout 5 capsh x; rm y").out
    assert "  ls -l: ls (reads)\n" in shown
    assert "  timeout 5 capsh x: timeout (words), capsh (not known); `capsh` is not known; " in shown
    assert "deny execute:rm * may concern it\n" in shown
    assert "  rm y: rm (changes); deny execute:rm * concerns it\n" in shown
    parts = rules("explain", "execute", "--json", "--", "capsh x; ls").document["parts"]
    assert parts[0]["unknown"] == "`capsh` is not known"
    assert parts[0]["rules"] == [{"rule": "execute:rm *", "action": "deny", "concerns": "maybe"}]
    assert parts[1]["rules"] == []


def test_programs_that_the_user_knows_are_not_asked_about(rules: Shell) -> None:
    rules("add", "--deny", "execute:rm *")
    settings = rules.file.parent / "settings.json"
    settings.write_text('{"known": {"mytool": "reads"}, "rules": {"allow": ["execute:mytool x"]}}')
    assert rules("explain", "execute", "--", "mytool", "x").out.startswith("allow")
    settings.write_text('{"rules": {"allow": ["execute:mytool x"]}}')
    assert "`mytool` is not known, and rule execute:rm *" in rules("explain", "execute", "--", "mytool", "x").out
    settings.write_text('{"known": {"mytool": "harmless"}}')
    refused = rules("explain", "execute", "--", "mytool", "x")
    assert refused.code == exits.USAGE
    assert "what mytool does must be reads, changes, sends, project" in refused.err


def test_a_repository_cannot_state_what_programs_do(rules: Shell) -> None:
    rules("add", "--deny", "execute:rm *")
    folder = rules.project / ".dragoman"
    folder.mkdir()
    (folder / "settings.json").write_text('{"known": {"mytool": "reads"}}')
    explained = rules("explain", "execute", "--", "mytool", "x")
    assert "`mytool` is not known" in explained.out
    assert "cannot state what programs do" in explained.err


def test_a_rule_for_everywhere_is_seen_from_every_project(rules: Shell, tmp_path: Path) -> None:
    rules("add", "--deny", "edit:secrets/**", "--everywhere")
    rules("add", "--allow", "edit:secrets/**")
    other = tmp_path / "other"
    other.mkdir()
    assert [row["scope"] for row in rules("list", "--json", "--project", str(other)).document] == ["pinned"]
    assert len(rules("list", "--json", "--project", str(other), "--all").document) == 2
    explained = rules("explain", "edit", "--", "secrets/key")
    assert explained.out.startswith("deny: denied by rule edit:secrets/**")
    assert rules("remove", "--everywhere", "edit:secrets/**").code == exits.OK
    assert rules("explain", "edit", "--", "secrets/key").out.startswith("allow")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["execute", "--", "npm test; id"], "`id` is not covered"),
        (["execute", "--", "echo $(id)"], "cannot be read: it has a substitution"),
        (["execute", "--", "sudo", "npm", "test"], "sudo does whatever"),
        (["edit", "--", ".git/hooks/pre-commit"], "protected"),
        (["edit", "--", "../outside"], "no rule allows it"),
        (["fetch", "--", "example.org"], "no rule allows it"),
        (["mcp", "--", "github", "get_issue"], "no rule allows it"),
        (["think"], "no rule allows it"),
    ],
)
def test_explain_shows_why_something_is_asked(rules: Shell, words: list[str], reason: str) -> None:
    rules("add", "--allow", "execute:npm test *")
    explained = rules("explain", *words)
    assert explained.code == exits.OK
    assert explained.out.startswith("ask: ")
    assert reason in explained.out
    assert "`always` would" in explained.out


def test_a_rule_is_for_the_whole_project_from_any_folder_in_it(rules: Shell) -> None:
    (rules.project / ".git").mkdir()
    deep = rules.project / "src" / "deep"
    deep.mkdir(parents=True)
    rules("add", "--allow", "edit:src/**", "--project", str(deep))
    assert [row["project"] for row in rules("list", "--json").document] == [str(rules.project)]
    assert rules("explain", "edit", "--project", str(deep), "--", "a.py").out.startswith("allow")
    assert rules("explain", "edit", "--", "a.py").out.startswith("ask")


def test_explain_knows_rules_for_one_agent(rules: Shell) -> None:
    rules("add", "--allow", "gemini@read")
    assert rules("explain", "read", "--agent", "gemini").out.startswith("allow")
    assert rules("explain", "read", "--agent", "claude").out.startswith("ask")


def test_what_a_repository_allows_is_ignored_and_reported(rules: Shell) -> None:
    rules.ships(allow=["execute:make", "edit\x1b[2J"], deny=["execute:rm *"])
    listed = rules("list", "--json")
    assert [(row["action"], row["rule"], row["scope"]) for row in listed.document] == [
        ("deny", "execute:rm *", "repository")
    ]
    assert "execute:make" in listed.err
    assert "cannot allow" in listed.err
    assert "\x1b" not in listed.err
    assert rules("explain", "execute", "--", "make").out.startswith("ask")
    assert rules("explain", "execute", "--", "rm", "x").out.startswith("deny")


@pytest.mark.parametrize("rule", ["*", "execute:*", "execute:python *", "edits", "edit:../x"])
def test_a_rule_that_may_not_be_kept_is_a_usage_error(rules: Shell, rule: str) -> None:
    ran = rules("add", "--allow", rule)
    assert (ran.code, ran.out) == (exits.USAGE, "")
    assert ran.err.startswith("dragoman: error: the rule ")
    assert not rules.file.exists()


def test_a_broken_file_is_named_and_left_alone(rules: Shell) -> None:
    rules.file.parent.mkdir(parents=True)
    rules.file.write_text('{"user": [')
    for words in (["list"], ["explain", "read"], ["add", "--allow", "read"], ["remove", "read"]):
        ran = rules(*words)
        assert ran.code == exits.USAGE
        assert str(rules.file) in ran.err
    assert rules.file.read_text() == '{"user": ['


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["add"],
        ["add", "read"],
        ["add", "--allow", "--deny", "read"],
        ["add", "--allow", "read", "--", "x"],
        ["remove"],
        ["remove", "read"],
        ["list", "read"],
        ["list", "--allow"],
        ["list", "--everywhere"],
        ["explain"],
        ["explain", "everything"],
        ["explain", "read", "--all"],
        ["explain", "think", "--", "x"],
        ["explain", "mcp", "--", "x"],
        ["list", "--agent", "x"],
        ["list", "--project", "/no/such/folder"],
    ],
)
def test_wrong_arguments_are_a_usage_error_with_a_hint(rules: Shell, words: list[str]) -> None:
    ran = rules(*words)
    assert (ran.code, ran.out) == (exits.USAGE, "")
    assert "hint: " in ran.err


def test_help_has_examples(rules: Shell) -> None:
    ran = rules("--help")
    assert ran.code == exits.OK
    assert "examples:" in ran.out


def test_without_rules_a_note_is_written_and_stdout_stays_empty(rules: Shell) -> None:
    assert rules("list") == Ran(exits.OK, "", "there are no rules: every request is asked about\n")
    rules("add", "--ask", "read")
    assert rules("list").out.splitlines()[1].split()[:2] == ["ask", "read"]


def test_first_words_of_a_rule_do_not_cover_what_runs_something_else(rules: Shell) -> None:
    assert rules("add", "--allow", "execute:npm *").code == 0
    assert rules("explain", "execute", "--", "npm test -- --watch=false").out.startswith("allow: ")
    for text in ("npm -s exec -c id", "npm test --script-shell=/tmp/x", "npm pkg set scripts.test=id"):
        assert rules("explain", "execute", "--", text).out.startswith("ask: ")
