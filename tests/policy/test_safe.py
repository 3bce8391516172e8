"""Safe commands: which lines only read inside the roots, and every option that makes a reader do more."""

from __future__ import annotations

import posixpath

import pytest

from dragoman.errors import ConfigError
from dragoman.policy import Command, Request, judge, parse_rule
from dragoman.policy.parts import read_parts
from dragoman.policy.safe import SafetyFacts, is_safe, safe_parts


def facts(*, git_is_harmless: bool = False, is_system: bool = True) -> SafetyFacts:
    def is_inside(path: str, folder: str) -> bool:
        place = posixpath.normpath(posixpath.join(folder, path))
        return not path.startswith("~") and (place == "/p" or place.startswith("/p/")) and place != "/p/link"

    return SafetyFacts(is_inside=is_inside, is_system=lambda _: is_system, git_is_harmless=git_is_harmless)


def is_safe_line(text: str, known: SafetyFacts) -> bool:
    return is_safe(read_parts(None, text, "/p", "/home/u"), known)


SAFE = [
    "ls",
    "ls -la src",
    "/bin/ls -1",
    "cat -n src/a.py",
    "head -20 a | tail -n 5",
    "cat a | grep -rn 'x y' src --include='*.py' | sort -u | uniq -c | head",
    "cd src && ls && pwd",
    "echo 'a; b' && true",
    "rg -n -g '*.py' foo src",
    "find . -name '*.py' -not -path './x/*' -type f",
    "find src -maxdepth 2",
    "sed -n '1,20p;$p' a.py",
    "wc -l < a",
    "wc -l src/*.py",
    "ls 2>/dev/null",
    "cat a 2>&1",
    "jq -r '.a.b' x.json",
    "git rev-parse HEAD",
    "git cat-file -p HEAD",
    "python --version",
    "node -v",
    "command -v rg",
    "test -f a",
    "date +%s",
    "diff a b",
    "sleep 5",
    "git describe --tags",
    "git remote -v",
    "grep -ne x src/a.py",
    "grep --regexp=x src",
    "strings -n 8 a",
    "expr 1 + 2",
    "[ -f a ] && cat a",
    "test -d src -a ! -e b",
    "[ a = b ]",
    "jq --arg name value '.[$name]' x.json",
    "jq -r --argjson n 1 --arg s /etc/passwd '.a' x.json",
    "realpath --relative-to=/etc src",
    "diff --stat a b",
    "diff -r --no-dereference src lib",
    "od -s a",
    "hexdump -C -n 16 a",
    "sha512sum a",
    "ls --sort=size --all src",
    "rg --files -g '*.py'",
    "sort --key=2 a",
    "ls /p/src/*.py",
    "grep -rn x --include=*.py .",
]
GIT = [
    "git log --oneline -5",
    "git --no-pager log -n 5",
    "git branch -a",
    "git branch",
    "git show --stat HEAD",
    "git stash list",
    "git describe --dirty",
    "git tag -l",
    "git status",
    "git diff --stat",
    "git show",
    "git log -p",
    "git blame a",
    "git grep -n x",
    "git ls-files",
]
NOT_SAFE = [
    "grep -ne root /etc/passwd",
    "grep -ie root ../x",
    "rg -ne root /etc/passwd",
    "grep --regexp=root /etc/passwd",
    "grep -A src/* x a",
    "od -s /etc/passwd",
    "hexdump -t /etc/passwd",
    "strings @a",
    "strings src/*",
    "strings -n 8 /etc/passwd",
    "test -v 'a[$(id)]'",
    "[ -v 'a[$(id)]' ]",
    "[ -f a",
    "[ -f /etc/passwd ]",
    "jq --arg a b env",
    "jq --arg a b . /etc/passwd",
    "jq --arg a .",
    "jq --rawfile a /etc/passwd '.'",
    "jq -n 'modulemeta'",
    "diff -r src lib",
    "diff -ur src lib",
    "diff --recursive src lib",
    "diff a /etc/passwd",
    "realpath /etc/passwd",
    "readlink -f ~/x",
    "expr a : -x --y",
    "sha256sum -c a",
    "cat /etc/*",
    "echo /etc/*",
    "echo ../*",
    "uniq src/*",
    "sort --output=x a",
    "rg --pre-glob x y",
    "rm a",
    "ls -L",
    "ls -laL",
    "ls ..",
    "ls /etc",
    "ls ~/x",
    "cat ../x",
    "cat link",
    "cd .. && ls",
    "cd src && cat ../../x",
    "cat *",
    "cat -*",
    "cat src/../../*",
    "tail -f a",
    "tail --follow a",
    "wc --files0-from=a",
    "grep -R x",
    "grep -f a b",
    "grep -nf a b",
    "rg --pre x y",
    "rg --pr x y",
    "rg -z y",
    "find . -delete",
    "find . -exec ls {} +",
    "find . -fprint x",
    "find -L .",
    "find . -name *.py",
    "find /etc -name x",
    "find . -newer /etc/x",
    "sort -o x a",
    "sort -no x a",
    "sort --outp=x a",
    "sort -T /tmp a",
    "uniq a b",
    "xxd a b",
    "sed -n '1e id' a",
    "sed -n 'w x' a",
    "sed -i s/a/b/ a",
    "sed p a",
    "sed -n 1p -i a",
    "tree -o x",
    "file -C",
    "file -f a",
    "date -s x",
    "date -f a",
    "jq -n env",
    "jq -f x",
    "printf -v x y",
    "command ls",
    "echo x > a",
    "ls | tee a",
    "A=b ls",
    "wc < /etc/passwd",
    "./ls",
    "node_modules/.bin/ls",
    "/tmp/ls",
    "x --version",
    "git -C .. log",
    "git -c a=b log",
    "git branch x",
    "git branch -D x",
    "git tag x",
    "git stash",
    "git remote add x y",
    "git log --output=x",
    "git diff --ext-diff",
    "git diff --no-index /etc/x y",
    "git grep -O x",
    "git grep -nO x",
    "git show --textconv",
    "git push",
    "python x.py",
    "node x",
    "sleep 100",
    "env",
    "curl x",
    "ls; curl x",
    "ls $(id)",
    "ls &",
    "awk 1 a",
    "xargs ls",
]


@pytest.mark.parametrize("text", SAFE)
def test_readers_with_their_plain_options_are_safe(text: str) -> None:
    assert is_safe_line(text, facts())


@pytest.mark.parametrize("text", GIT)
def test_git_that_runs_configured_programs_is_safe_only_where_none_is_configured(text: str) -> None:
    assert not is_safe_line(text, facts())
    assert is_safe_line(text, facts(git_is_harmless=True))


@pytest.mark.parametrize("text", NOT_SAFE)
def test_anything_else_is_not_safe(text: str) -> None:
    assert not is_safe_line(text, facts(git_is_harmless=True))


def test_a_program_that_the_project_replaced_is_not_safe() -> None:
    assert not is_safe_line("ls", facts(is_system=False))
    assert is_safe_line("echo a", facts(is_system=False))


def execute(text: str, *, known: SafetyFacts | None = None) -> Request:
    reading = read_parts(None, text, "/p", "/home/u")
    return Request(
        "a",
        "execute",
        command=Command(line=text),
        root="/p",
        home="/home/u",
        safe_parts=safe_parts(reading, known or facts()),
    )


def test_one_word_allows_safe_commands_and_nothing_else() -> None:
    rules = [parse_rule("safe", "allow", "pinned")]
    assert judge(rules, execute("ls -la src | head -5")).action == "allow"
    assert judge(rules, execute("ls && make")).action == "ask"
    assert judge([*rules, parse_rule("execute:make", "allow", "flag")], execute("ls && make")).action == "allow"
    assert judge([*rules, parse_rule("execute:ls *", "deny", "flag")], execute("ls -la")).action == "deny"
    assert judge([*rules, parse_rule("read:secret.txt", "deny", "flag")], execute("cat secret.txt")).action == "ask"


def test_safe_counts_only_when_the_caller_checked_the_files() -> None:
    request = Request("a", "execute", command=Command(line="ls"), root="/p", home="/home/u")
    assert judge([parse_rule("safe", "allow", "flag")], request).action == "ask"


@pytest.mark.parametrize(("text", "action"), [("safe:x", "allow"), ("safe", "deny"), ("safe", "ask")])
def test_safe_is_one_word_and_can_only_be_allowed(text: str, action: str) -> None:
    with pytest.raises(ConfigError, match="safe"):
        parse_rule(text, action, "flag")


def test_reading_a_file_of_the_project_needs_no_rule_and_a_deny_wins() -> None:
    inside = Request("a", "read", paths=("/p/README.md",), root="/p", is_inside=True)
    assert judge([], inside).action == "allow"
    assert judge([parse_rule("read:README.md", "deny", "pinned")], inside).action == "deny"
    assert judge([parse_rule("read", "ask", "pinned")], inside).action == "ask"
    outside = Request("a", "read", paths=("/etc/passwd",), root="/p")
    assert judge([], outside).action == "ask"
    edit = Request("a", "edit", paths=("/p/README.md",), root="/p", is_inside=True)
    assert judge([], edit).action == "ask"
