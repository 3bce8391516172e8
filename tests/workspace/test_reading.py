"""What a reader gets: the text as it stands, or a window of its lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.workspace import Workspace
from dragoman.workspace.text import window

LINES = "one\ntwo\nthree\nfour\n"


@pytest.mark.rule(274, 277)
@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (None, None, LINES),
        (1, None, LINES),
        (0, None, LINES),
        (1, 1, "one\n"),
        (2, 2, "two\nthree\n"),
        (3, None, "three\nfour\n"),
        (None, 3, "one\ntwo\nthree\n"),
        (4, 100, "four\n"),
        (5, None, ""),
        (5, 1, ""),
        (1000, 1, ""),
        (2**32 - 1, 2**32 - 1, ""),
        (1, 2**32 - 1, LINES),
        (1, 0, ""),
        (None, 0, ""),
    ],
)
def test_line_and_limit_select_lines_counted_from_one(
    workspace: Workspace, project: Path, line: int | None, limit: int | None, expected: str
) -> None:
    (project / "lines.txt").write_text(LINES)
    assert workspace.read_text(project / "lines.txt", line=line, limit=limit) == expected


@pytest.mark.parametrize("text", ["a\r\nb\r\n", "a\rb\n", "no newline", "", "\n\n", "\x0c\x1c\u2028\x85 \n🦜"])
def test_every_character_comes_back_as_it_stands(workspace: Workspace, project: Path, text: str) -> None:
    (project / "text.txt").write_bytes(text.encode())
    assert workspace.read_text(project / "text.txt") == text


@given(text=st.text(alphabet="ab\n\r\u2028"), line=st.integers(1, 9), limit=st.none() | st.integers(0, 9))
def test_a_window_is_what_splitting_at_newlines_gives(text: str, line: int, limit: int | None) -> None:
    *whole, last = text.split("\n")
    lines = [*(f"{part}\n" for part in whole), last]
    end = None if limit is None else line - 1 + limit
    assert window(text, line, limit) == "".join(lines[line - 1 : end])


def test_a_byte_order_mark_belongs_to_the_file(workspace: Workspace, project: Path) -> None:
    (project / "marked.txt").write_bytes(b"\xef\xbb\xbftext\n")
    assert workspace.read_text(project / "marked.txt") == "text\n"


def test_what_was_found_is_read_even_if_its_name_is_taken_by_another(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    opened = workspace.open_text(path)
    path.rename(project / "old.py")
    path.symlink_to("../../elsewhere/secret.txt")
    assert opened.read() == "print(1)\n"
