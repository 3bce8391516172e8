"""Our reading of `.gitignore` is git's, tried on many trees."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from dragoman.builtin.tools.walk import Stop, walk
from dragoman.workspace.ignore import IgnoreFile, parse_line
from dragoman.workspace.wildcards import GlobPattern, expand
from tests import machine

needs_git = machine.needs("git")  # to compare with

NAMES = ("a", "b", "foo", "foo.o", "bar.txt", "build", "a b", "x!y", "#n", "[z]", ".hid", "A", "foo.o.txt", "\\q", "z")
LINES = (
    "*.o", "!foo.o", "/foo", "foo/", "build/", "!build/", "a/b", "/a/", "a/*", "!a/b", "**/foo", "a/**", "a/**/b",
    "**/a/**", "*", "!*/", "!*.txt", "/*", "!/a", "foo*", "?", "[ab]", "[!a]", "[^a]", "[a-c]*", "*.[ot]*", "\\#n",
    "#n", "\\!x", "x!y", "a b", "a\\ ", "b   ", "foo.o\\", "[z]", "\\[z\\]", "[", "a[", "**", "***", "a**", "**b",
    "foo**/", "/", "//", "!", "", "  ", "[[:lower:]]", "[[:alpha:]-]*", "[[:nope:]]", "[]a]", "[a-]", "[z-a]", "[[:]z]",
    "foo.?", "*/foo", "*/*", "!*/*/", "a/b/", "/a/b/c", ".*", "!.hid", "\\\\q", "foo\r", "\tfoo", "b/../a", "a//b",
    "**/", "/**", "/**/b", "foo/**/", "[!]a]", "[\\]a]", "*\\*", "{a,b}", "a/b/**", "!a/b/c", "!a/b/**", "A",
)  # fmt: skip


def git(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(folder)}
    env.pop("XDG_CONFIG_HOME", None)
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, input=given, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def make_tree(root: Path, chance: random.Random) -> None:
    def fill(folder: Path, depth: int) -> None:
        for name in chance.sample(NAMES, 7):
            if depth < 3 and chance.random() < 0.45:
                (folder / name).mkdir()
                fill(folder / name, depth + 1)
            else:
                (folder / name).write_text("x")
        if depth == 0 or chance.random() < 0.3:
            lines = chance.choices(LINES, k=chance.randint(1, 5))
            (folder / ".gitignore").write_text("\n".join(lines) + chance.choice(("", "\n")), newline="")

    root.mkdir()
    fill(root, 0)
    git(root, "init", "-q")
    (root / ".git" / "info" / "exclude").write_text("\n".join(chance.choices(LINES, k=chance.randint(0, 2))))


@needs_git
@pytest.mark.parametrize("seed", range(60))
def test_a_walk_finds_what_git_does_not_ignore(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "tree"
    make_tree(root, random.Random(seed))
    every = list(walk(str(root), Stop(), hidden=True, ignored=True))
    given = b"\0".join(os.fsencode(path) for path in every)
    ignored = git(root, "check-ignore", "--no-index", "-z", "--stdin", given=given).split(b"\0")
    expected = sorted(set(every) - {os.fsdecode(path) for path in ignored})
    assert sorted(walk(str(root), Stop(), hidden=True)) == expected


@needs_git
def test_a_walk_of_a_folder_inside_knows_the_rules_above_it(tmp_path: Path) -> None:
    (tmp_path / "src" / "gen").mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("*.log\n/src/gen/b.py\n")
    (tmp_path / "src" / ".gitignore").write_text("!keep.log\n")
    git(tmp_path, "init", "-q")
    for name in ("a.py", "b.py", "x.log", "keep.log"):
        (tmp_path / "src" / "gen" / name).write_text("")
    assert list(walk(str(tmp_path / "src" / "gen"), Stop())) == ["a.py", "keep.log"]


def test_rules_from_outside_do_not_apply_inside_a_repository(tmp_path: Path) -> None:
    (tmp_path / "inner" / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "inner" / "a.log").write_text("")
    (tmp_path / "inner" / "a.txt").write_text("")
    (tmp_path / "inner" / ".git" / "info" / "exclude").write_text("*.txt\n")
    assert list(walk(str(tmp_path), Stop())) == ["inner/a.log"]
    assert list(walk(str(tmp_path / "inner"), Stop())) == ["a.log"]


def test_hidden_files_are_left_out_unless_a_rule_names_them(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("!.named\n")
    for name in (".named", ".other", "plain"):
        (tmp_path / name).write_text("")
    assert list(walk(str(tmp_path), Stop())) == [".named", "plain"]
    assert list(walk(str(tmp_path), Stop(), hidden=True)) == [".gitignore", ".named", ".other", "plain"]


def test_links_are_not_followed_and_git_is_never_shown(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text("")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root)
    (root / "secret").symlink_to(tmp_path / "outside" / "secret")
    os.mkfifo(root / "pipe")
    (root / "a").write_text("")
    assert list(walk(str(root), Stop(), hidden=True, ignored=True)) == ["a"]


def test_a_walk_ends_when_it_is_stopped(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "a").write_text("")
    stop = Stop()
    files = walk(str(tmp_path), stop)
    assert next(files) == "0/a"
    stop.is_set = True
    assert list(files) == []
    late = Stop(seconds=-1)
    assert list(walk(str(tmp_path), late)) == []
    assert late.was_late


def test_rules_files_that_cannot_be_read_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("")
    (tmp_path / "rules").write_text("*.log")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "b.log").write_text("")
    (tmp_path / "link" / ".gitignore").symlink_to(tmp_path / "rules")
    (tmp_path / ".gitignore").mkdir()
    assert list(walk(str(tmp_path), Stop())) == ["a.log", "link/b.log", "rules"]


def test_a_byte_order_mark_is_not_part_of_the_first_rule() -> None:
    assert IgnoreFile("\ufefffoo\n").decide("foo", "foo", False) is True
    assert parse_line("# foo") is None


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*.py", ("a.py", "b/c/a.py", ".py"), ("a.pyc", "a.py/b")),
        ("src/*.py", ("src/a.py",), ("src/b/a.py", "x/src/a.py")),
        ("src/**", ("src/a", "src/b/c"), ("src", "xsrc/a")),
        ("src/", ("src/a", "src/b/c"), ("b/src/a",)),
        ("**/*.{ts,tsx}", ("a.ts", "b/a.tsx"), ("a.t", "a.{ts,tsx}")),
        ("{src,test}/**/*.py", ("src/a.py", "test/b/a.py"), ("lib/a.py",)),
        ("a{b{c,d},}e", ("abce", "abde", "ae"), ("abe",)),
        ("./a?c", ("abc",), ("a/c", "x/abc")),
        ("a{b", ("a{b",), ("ab",)),
        (r"\*", ("*", "x/*"), ("a",)),
    ],
)
def test_globs_match_as_users_expect(glob: str, yes: tuple[str, ...], no: tuple[str, ...]) -> None:
    compiled = GlobPattern(glob)
    assert [path for path in (*yes, *no) if compiled.matches(path)] == list(yes)


@pytest.mark.parametrize("glob", ["", "[a", "a\\", "{a,b}" * 9])
def test_an_invalid_glob_is_refused(glob: str) -> None:
    with pytest.raises(ValueError, match="glob"):
        GlobPattern(glob)


def test_braces_are_expanded_in_order() -> None:
    assert expand("{a,b}{1,2}") == ["a1", "a2", "b1", "b2"]
