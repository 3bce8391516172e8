"""The reader of shell lines: what it reads is what bash runs, and everything else is refused with a reason."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dragoman.policy.shell import MAX_PARTS, Line, Redirection, Unreadable, Word, read_line
from tests import machine

if TYPE_CHECKING:
    from collections.abc import Sequence

CORPUS = Path(__file__).parents[3] / "shared" / "research" / "shell-lines.jsonl"
BASH = machine.program("bash")


def read(text: str) -> Line:
    line = read_line(text)
    assert isinstance(line, Line), line
    return line


def argvs(text: str) -> list[tuple[str, ...]]:
    return [command.argv for command in read(text).commands]


@pytest.mark.parametrize(
    ("text", "expected", "joins"),
    [
        ("ls", [("ls",)], ()),
        ("a && b || c; d | e", [("a",), ("b",), ("c",), ("d",), ("e",)], ("and", "or", "seq", "pipe")),
        ("a &&\n\n b\nc;", [("a",), ("b",), ("c",)], ("and", "seq")),
        ("grep \"a\\|b\" 'c d' e\\ f", [("grep", "a\\|b", "c d", "e f")], ()),
        ('echo "\\"\\\\\\$ $ !x"', [("echo", '"\\$ $ !x')], ()),
        ("g'i't push # no", [("git", "push")], ()),
        ("ls # a\n# b\npwd", [("ls",), ("pwd",)], ("seq",)),
        ("ls HEAD~3 a#b {} x=~", None, ()),
        ("git log HEAD~3 a#b {} ^main !x 50%", [("git", "log", "HEAD~3", "a#b", "{}", "^main", "!x", "50%")], ()),
        ("a \\\n  b", [("a", "b")], ()),
        ("echo 'a\nb'", [("echo", "a\nb")], ()),
    ],
)
def test_a_line_is_read_into_its_commands(text: str, expected: Any, joins: tuple[str, ...]) -> None:
    if expected is None:
        assert isinstance(read_line(text), Unreadable)
        return
    assert argvs(text) == expected
    assert read(text).joins == joins


def test_redirections_globs_homes_and_assignments_are_kept_with_their_command() -> None:
    (command,) = read("A=b C='d e' make -j4 src/*.py ~/x '~/y' 2>&1 >out.txt < in").commands
    assert command.assignments == (("A", "b"), ("C", "d e"))
    assert command.words == (
        Word("make"),
        Word("-j4"),
        Word("src/*.py", fixed="src/"),
        Word("~/x", is_home=True),
        Word("~/y"),
    )
    assert [word.path for word in command.words[3:]] == ["~/x", "./~/y"]
    assert command.redirections == (
        Redirection("2", ">&", Word("1")),
        Redirection("", ">", Word("out.txt")),
        Redirection("", "<", Word("in")),
    )


def test_a_here_document_with_a_quoted_delimiter_is_literal_text() -> None:
    line = read("cat > a.py <<'EOF' && tail <<-\"X\"\n$(id) `id` \\\nEOF\n\t\tone\n\tX\nls")
    assert [command.argv for command in line.commands] == [("cat",), ("tail",), ("ls",)]
    assert line.commands[0].redirections[1] == Redirection("", "<<", Word("$(id) `id` \\\n"))
    assert line.commands[1].redirections == (Redirection("", "<<", Word("one\n")),)


REFUSED = [
    ("", "missing"),
    ("# only a comment", "missing"),
    ("a &&", "missing"),
    ("; a", "missing"),
    ("a | | b", "missing"),
    ("a ;; b", "operator"),
    ("a &", "background"),
    ("a |& b", "operator"),
    ("echo $(id)", "substitution"),
    ('echo "$(id)"', "substitution"),
    ("echo `id`", "substitution"),
    ('echo "`id`"', "substitution"),
    ("echo $HOME", "variable"),
    ("echo ${IFS}", "variable"),
    ("echo $'a'", "variable"),
    ('echo $"a"', "variable"),
    ("echo $?", "variable"),
    ("echo $[1]", "variable"),
    ("R=rm; $R x", "stands alone"),
    ("(id)", "subshell"),
    ("f() { id; }", "subshell"),
    ("{ id; }", "shell's own language"),
    ("if true; then id; fi", "shell's own language"),
    ("for f in a; do id; done", "shell's own language"),
    ("time id", "shell's own language"),
    ("! id", "shell's own language"),
    ("[[ a ]]", "glob stands where"),
    ("/bin/r? x", "glob stands where"),
    ("echo {a,b}", "brace"),
    ("echo {1..3}", "brace"),
    ("echo {a','b}", None),
    ("diff <(a) <(b)", "missing|subshell"),
    ("cat << EOF\nx\nEOF", "not quoted"),
    ("cat <<'EOF'\nx", "no end"),
    ("cat <<<x", "not read"),
    ("a >| b", "not read"),
    ("a <> b", "not read"),
    ("a > *.txt", "glob"),
    ("a >", "missing"),
    ("a >&b", "not a descriptor"),
    ("a {fd}>x", "named by a variable"),
    ("> x", "stands alone"),
    ("A=b", "stands alone"),
    ("A+=b c", "not read"),
    ("A[0]=b c", "not read"),
    ("''", "empty"),
    ("ls ~root/x", "another user"),
    ("ls a=~/x", "inside a word"),
    ("=ls", "starts with ="),
    ("%1", "starts with %"),
    ("a 'b", "not closed"),
    ('a "b', "not closed"),
    ("a \\", "backslash"),
    ("a b\\\nc", "backslash"),
    ('a "b\\\nc"', "backslash"),
    ("a\rb", "control"),
    ("a 'b\x0bc'", "control"),
    ("a\u00a0b", "invisible"),
    ("a\u202eb", "invisible"),
    ("a\u2028b", "invisible"),
    ("cat <<'E' 'a\nb'\nx\nE", "here-document began"),
    (" && ".join(["a"] * (MAX_PARTS + 1)), "more than 200 parts"),
    ("a " * 40_000, "more than 2000 words"),
    ("a" + "''" * 9_000, "too long"),
    ("a " + "b" * 70_000 + " c", "too long"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_line_outside_the_subset_is_refused_with_the_reason(text: str, reason: str | None) -> None:
    line = read_line(text)
    if reason is None:
        # Quoted letters do not make a brace expansion, as bash has it.
        assert isinstance(line, Line)
        return
    assert isinstance(line, Unreadable)
    assert any(part in line.reason for part in reason.split("|")), line.reason


def test_long_texts_in_quotes_and_here_documents_are_read() -> None:
    assert len(argvs("echo '" + "x" * 200_000 + "'")[0][1]) == 200_000
    assert isinstance(read_line("cat > a <<'E'\n" + "line\n" * 40_000 + "E"), Line)


def _corpus() -> list[dict[str, Any]]:
    if not CORPUS.exists():
        pytest.skip(f"{CORPUS} is not there")
    return [json.loads(row) for row in CORPUS.read_text().splitlines()]


def test_at_least_95_percent_of_real_lines_are_readable() -> None:
    rows = _corpus()
    readable = [row for row in rows if isinstance(read_line(row["line"]), Line)]
    assert len(readable) >= 0.95 * len(rows)


def test_real_lines_are_read_as_the_study_read_them() -> None:
    for row in _corpus():
        if "parts" not in row:
            if row["line"].startswith("[ "):
                continue  # the study took the name of this program for a glob
            assert isinstance(read_line(row["line"]), Unreadable), row["line"]
            continue
        line = read(row["line"])
        seen = []
        for command in line.commands:
            redirections = sorted([r.operator, r.descriptor, r.target.text.rstrip("\n")] for r in command.redirections)
            seen.append((list(command.argv), redirections, any(word.fixed is not None for word in command.words)))
        assert seen == [
            (part["argv"], sorted(part.get("redirect", [])), part.get("glob", False)) for part in row["parts"]
        ]
        joins = {"&&": "and", "||": "or", ";": "seq", "|": "pipe"}
        assert line.joins == tuple(joins[part["then"]] for part in row["parts"][:-1])


# Pieces of lines; programs that bash does not find are passed to `command_not_found_handle`, which writes their words.
TOKENS = (
    *("qa", "qb1", "q-c", "12", "2", "=", "A=", "A=1", "x=y", "-n", "q/r", "~", "~/q", ".q", ":", "%", "^", "!", "@"),
    *(" ", " ", " ", " ", " ", "\t", "\n", "\\\n", "\\ ", "\\", "\\'", '\\"', "\\$", "\\q", "'", '"', "'q r'", '"q r"'),
    *('"q\\"r"', '"q\\nr"', '"q\\\\"', '"$"', "$", "$q", "${", "$(", "`", "'q;r'", '"!q"', "''", '""', "#", " # q\n"),
    *("&&", "||", ";", "|", "&", "\n", " && ", " || ", " ; ", " | ", ";;", "|&", "(", ")", "{", "}", "{q,r}", "{q}"),
    *(">", ">>", "<", "2>&1", ">&2", " >o", " 2>o", " >>o", " <in", "&>o", "1>o", ">|", "<>", "<<<", " 2>/dev/null"),
    *("*", "?", "[q]", "q*", "\r", "\x0b", "\u00a0", "é", "\u200b", " if ", " do ", " time ", " q=~ "),
    *(" <<'E'\nq $q\nE\n", ' <<"E"\nq\nE\n', " <<E\nq\nE\n", " <<-'E'\n\tq\n\tE\n"),
)
HANDLER = (
    "PATH=/nowhere; set -f\n"
    "command_not_found_handle() {\n"
    '  local IFS= text=; text=$(printf \'%s\\037\' "$@"); printf \'%s\\036\' "$text" >>"$QLOG"; return "$QSTATUS"\n'
    "}\n"
)


def _run_in_bash(text: str, folder: Path, status: int) -> tuple[list[tuple[str, ...]], str]:
    log = folder.parent / f"{folder.name}.log"
    log.write_bytes(b"")
    assert BASH is not None
    environment = {"QLOG": str(log), "QSTATUS": str(status), "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    ran = subprocess.run(
        [BASH, "--norc", "-c", HANDLER + text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    entries = log.read_bytes().decode().split("\x1e")[:-1]
    return [tuple(entry.split("\x1f")[:-1]) for entry in entries], ran.stderr.decode()


def _expected(line: Line, status: int, home: str) -> list[tuple[str, ...]]:
    """What runs when every command ends with this status."""
    ran: list[tuple[str, ...]] = []
    last, is_running = 0, True
    for number, command in enumerate(line.commands):
        join = "seq" if number == 0 else line.joins[number - 1]
        if join != "pipe":
            is_running = join == "seq" or (join == "and") == (last == 0)
        if is_running:
            ran.append(tuple(home + word.text[1:] if word.is_home else word.text for word in command.words))
            last = status
    return ran


def _is_comparable(line: Line) -> bool:
    """Whether every program is one that bash does not find: no builtin, no path."""
    return all(
        command.words[0].text not in (":", ".", "if", "do", "time", "!", "{", "}")
        and "/" not in command.argv[0]
        and not command.words[0].is_home
        for command in line.commands
    )


def _may_fail(line: Line) -> bool:
    """Whether a redirection names a file that may not be there, so that bash does not run the command."""
    files = (">", ">>", "<", "&>", "&>>")
    targets = [r.target.text for command in line.commands for r in command.redirections if r.operator in files]
    copied = [r.target.text for command in line.commands for r in command.redirections if r.operator in (">&", "<&")]
    return any(target not in ("o", "in", "/dev/null") for target in targets) or bool(set(copied) - {"1", "2"})


def _compare(texts: Sequence[str], folder: Path, chance: random.Random) -> int:
    compared = 0
    for text in texts:
        line = read_line(text)
        if not isinstance(line, Line) or not _is_comparable(line):
            continue
        status = chance.randrange(2)
        ran, errors = _run_in_bash(text, folder, status)
        expected = _expected(line, status, str(folder))
        compared += 1
        if "syntax error" in errors or _may_fail(line):
            # bash runs the lines before one that it refuses, not a command whose redirection fails, and nothing that
            # was not read.
            assert not Counter(ran) - Counter(expected), (text, ran, expected)
        else:
            assert Counter(ran) == Counter(expected), (text, ran, expected, errors)
    return compared


@machine.needs("bash")  # the oracle of this test
def test_what_is_read_is_what_bash_runs(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "in").write_text("")
    chance = random.Random(int(os.environ.get("DRAGOMAN_FUZZ_SEED", "11")))
    count = int(os.environ.get("DRAGOMAN_FUZZ_LINES", "1500"))
    texts = ["qa " + "".join(chance.choices(TOKENS, k=chance.randrange(1, 9))) for _ in range(count)]
    compared = _compare(texts, folder, chance)
    assert compared > count / 10, "too few of the random lines are readable for the comparison to mean something"


@pytest.mark.parametrize(
    "piece", ["''", '"\\\\"', "a ", "\\a", "a:", "{a}", ">a ", "a;", "a|", "'", '"', "$(", "~", "*"]
)
def test_the_work_of_reading_grows_with_the_line_and_ends_at_the_limits(piece: str) -> None:
    import dragoman.policy.shell as shell

    def pieces(count: int) -> int:
        reader = shell._Reader("a " + piece * count)
        with contextlib.suppress(shell._Refused):
            reader.read()
        return reader.pieces

    small, large = pieces(500), pieces(5_000)
    assert large <= 11 * max(small, 20)
    assert pieces(100_000) <= shell.MAX_PIECES + 1
