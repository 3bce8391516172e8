"""Which paths a glob covers, and which ones always ask."""

from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman.policy import Command, Request, is_protected, judge, parse_rule, paths

ROOT, HOME = "/home/u/project", "/home/u"
ALLOW_ALL = [parse_rule("*", "allow", "flag", "--allow"), parse_rule("edit:**", "allow", "flag", "--allow")]


def edit(*paths: str, kind: str = "edit") -> Request:
    return Request("a", kind, paths=paths, root=ROOT, home=HOME)


@pytest.mark.parametrize(
    ("glob", "covered", "not_covered"),
    [
        ("src/**", ["src/a", "src/a/b", "/home/u/project/src/a", "./src/a", "x/../src/a"], ["src", "srca", "a/src/b"]),
        ("src/", ["src/a", "src/a/b"], ["src", "srca"]),
        ("src/*", ["src/a"], ["src/a/b", "src"]),
        ("src/*.py", ["src/a.py", "src/.py"], ["src/a.pyc", "src/x/a.py"]),
        ("**/*.md", ["a.md", "x/y/a.md"], ["a.mdx"]),
        ("**", ["a", "a/b"], ["/tmp/a", "../a", "a/../../b", ".."]),
        ("a?.txt", ["ab.txt"], ["a.txt", "a/.txt"]),
        ("app/[id]/page.tsx", ["app/[id]/page.tsx"], ["app/i/page.tsx"]),
        ("/tmp/x/**", ["/tmp/x/a", "//tmp//x/a"], ["/tmp/x", "/tmp/xa", "tmp/x/a"]),
        ("~/notes/*", ["~/notes/a", "/home/u/notes/a"], ["/home/u/notes/a/b", "notes/a"]),
        ("src/**", [], ["src/../../x", "src/../.env", "/home/u/project/src/../../x"]),
        ("main.py", ["main.py"], ["src/main.py", "main.pyc", "Main.py", "main.py/x", "main.py\n"]),
    ],
)
def test_a_glob_covers_what_it_shows(glob: str, covered: list[str], not_covered: list[str]) -> None:
    rules = [parse_rule(f"edit:{glob}", "allow", "project")]
    assert {path: judge(rules, edit(path)).action for path in covered} == dict.fromkeys(covered, "allow")
    assert {path: judge(rules, edit(path)).action for path in not_covered} == dict.fromkeys(not_covered, "ask")


def test_an_allow_covers_all_paths_of_a_request_or_none_and_a_deny_any() -> None:
    allow, deny = parse_rule("edit:src/**", "allow", "project"), parse_rule("edit:doc/**", "deny", "project")
    assert judge([allow], edit("src/a", "src/b")).action == "allow"
    assert judge([allow], edit("src/a", "doc/b")).action == "ask"
    assert judge([allow, deny], edit("src/a", "DOC/b")).action == "deny"
    assert judge([allow], edit()).action == "ask"


@pytest.mark.parametrize("glob", ["../x", "src/../x", "~root/x", "src/**x", "x**/y"])
def test_a_glob_that_could_mislead_is_refused(glob: str) -> None:
    with pytest.raises(ConfigError):
        parse_rule(f"edit:{glob}", "deny", "project")


PROTECTED = [
    ".git/hooks/pre-commit",
    ".git/config",
    ".git",
    "sub/.git/hooks/x",
    ".gitmodules",
    ".gitattributes",
    ".GIT/hooks/x",
    ".git./hooks/x",
    ".git /hooks/x",
    ".g\u200dit/hooks/x",
    "src/../.git/hooks/x",
    "/home/u/project/.git/hooks/x",
    ".vscode/settings.json",
    ".idea/x.xml",
    ".zed/settings.json",
    ".cursor/rules/x.mdc",
    ".claude/settings.json",
    ".gemini/settings.json",
    ".codex/config.toml",
    ".mcp.json",
    ".Mcp.Json",
    "AGENTS.md",
    "sub/CLAUDE.md",
    ".dragoman/settings.json",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    ".husky/pre-commit",
    ".envrc",
    ".npmrc",
    "x.code-workspace",
    "~/.bashrc",
    "/home/u/.zshrc",
    "../.profile",
    "~/.ssh/authorized_keys",
    "~/.config/anything",
    "~/.local/bin/x",
    "/etc/cron.d/x",
    "/etc/passwd",
    "/usr/local/bin/x",
    "/var/spool/cron/u",
    "/proc/self/root/home/u/.bashrc",
    "/dev/sda",
    "//etc/passwd",
]
ORDINARY = [
    "src/main.py",
    "README.md",
    ".gitignore",
    ".env",
    ".github/ISSUE_TEMPLATE/bug.md",
    "git/hooks/x",
    "docs/agents/x.md",
    "agents.mdx",
    "/tmp/x",
    "/dev/null",
    "../other/src/a.py",
    "~/notes.txt",
]


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize("kind", ["edit", "delete", "move", "other"])
def test_a_change_of_a_protected_path_always_asks(path: str, kind: str) -> None:
    assert is_protected(path, ROOT, HOME)
    can_be_written = kind != "other" and ".." not in path and path.isprintable()
    exact = [parse_rule(f"{kind}:{path}", "allow", "pinned")] if can_be_written else []
    bare = parse_rule(kind, "allow", "pinned")
    verdict = judge([*ALLOW_ALL, *exact, bare], edit("src/a", path, kind=kind))
    assert (verdict.action, verdict.rule) == ("ask", None)
    assert "protected" in verdict.why


@pytest.mark.parametrize("path", ORDINARY)
def test_other_paths_are_not_protected(path: str) -> None:
    assert not is_protected(path, ROOT, HOME)
    assert judge(ALLOW_ALL, edit(path)).action == "allow"


@pytest.mark.parametrize("kind", ["read", "search"])
def test_looking_at_a_protected_path_needs_no_asking(kind: str) -> None:
    assert judge(ALLOW_ALL, edit(".git/config", kind=kind)).action == "allow"


def test_a_deny_beats_protection() -> None:
    deny = parse_rule("edit:.git/**", "deny", "repository", "settings")
    assert judge([*ALLOW_ALL, deny], edit(".git/config")).action == "deny"


def test_a_project_in_a_hidden_folder_is_not_protected_as_a_whole() -> None:
    root = "/home/u/.claude/worktrees/x"
    assert not is_protected(f"{root}/src/a.py", root, HOME)
    assert is_protected(f"{root}/.git", root, HOME)
    assert is_protected("/home/u/.claude/settings.json", root, HOME)


def test_a_home_that_is_the_project_keeps_its_hidden_files() -> None:
    assert is_protected("/home/u/.anything", HOME, HOME)
    assert not is_protected("/home/u/work/a.py", HOME, HOME)


@pytest.mark.parametrize(
    "line",
    [
        "cp x .git/hooks/pre-commit",
        "touch ~/.bashrc",
        "cp --target-directory=.git/hooks x",
        "rm .claude/settings.json",
        "mv x /etc/cron.d/y",
    ],
)
def test_a_command_that_names_a_protected_path_always_asks(line: str) -> None:
    rules = [parse_rule("execute:*", "allow", "flag"), parse_rule("*", "allow", "flag")]
    verdict = judge(rules, Request("a", "execute", command=Command(line=line), root=ROOT, home=HOME))
    assert verdict.action == "ask"
    assert "protected" in verdict.why


@pytest.mark.parametrize("line", ["cat .git/config", "ls -la .github/workflows", "gcc -I/usr/include a.c", "git diff"])
def test_a_command_that_only_looks_does_not(line: str) -> None:
    rules = [parse_rule("execute", "allow", "flag")]
    assert judge(rules, Request("a", "execute", command=Command(line=line), root=ROOT, home=HOME)).action == "allow"


def test_a_caution_asks_whatever_is_allowed_and_a_deny_beats_it() -> None:
    request = Request("a", "edit", paths=("src/a",), root=ROOT, home=HOME, caution="it is a hard link")
    assert judge(ALLOW_ALL, request).why == "it is a hard link"
    assert judge(ALLOW_ALL, request).action == "ask"
    assert judge([parse_rule("edit", "deny", "pinned")], request).action == "deny"


@pytest.mark.parametrize(
    "path",
    [
        "CONTEXT.md",
        "docs/Context.md",
        ".tool-versions",
        "mise.toml",
        "lib/sitecustomize.py",
        ".yarn/releases/yarn.cjs",
        ".bazelrc",
        ".gitlab/ci.yml",
    ],
)
def test_files_that_tools_run_or_agents_obey_are_protected(path: str) -> None:
    assert is_protected(path, "/p", "/home/u")
    assert not is_protected(f"a{path}".replace("/", "-") + "x", "/p", "/home/u")


@pytest.mark.parametrize(
    "glob", ["*a" * 60 + "b", "**/" * 40 + "b", "*?" * 40 + "b", "**/a/" * 40 + "b", "*a*?" * 30 + "b"]
)
@pytest.mark.parametrize("name", ["a", "a/"])
def test_no_glob_makes_matching_take_long(glob: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    real = paths._matches_name

    def counted(one: str, other: str) -> bool:
        nonlocal calls
        calls += 1
        return real(one, other)

    monkeypatch.setattr(paths, "_matches_name", counted)

    def work(length: int) -> int:
        nonlocal calls
        calls = 0
        assert not paths.matches_glob(glob, name * length, "/p", "/home/u")
        return calls

    assert work(2_000) <= 11 * max(work(200), 10)


def test_a_path_longer_than_any_file_is_denied_and_never_allowed() -> None:
    long = "a/" * paths.MAX_PATH
    assert paths.matches_glob("b/**", long, "/p", "/home/u", ignore_case=True)
    assert not paths.matches_glob("**", long, "/p", "/home/u")


@pytest.mark.parametrize(
    "name",
    [
        *(
            ".git",
            ".GIT",
            ".git.",
            ".g\u200bit",
            "AGENTS.md",
            "agents.MD ",
            "ａgents.md",
            ".vscode",
            "x.code-workspace",
        ),
        *("a.py", "main", "agents", "git", ".gitignore", "...", ".github", "workflows", "actions", "Straße", "é"),
    ],
)
@pytest.mark.parametrize("folder", ["", "src", ".github", ".GitHub", ".yarn", "ordner é"])
def test_a_search_finds_the_same_names_protected_as_a_single_look_does(folder: str, name: str) -> None:
    assert paths.is_protected_name(folder, name) == is_protected(f"/{folder}/{name}", "/", "")
