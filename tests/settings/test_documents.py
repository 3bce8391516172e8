"""JSON files are read strictly, an error points at its position, and a file is replaced atomically."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.settings.documents import Document, read_document, write_document

PATH = Path("settings.json")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def read(text: str, *, has_comments: bool = False) -> object:
    return Document(PATH, text, has_comments=has_comments).value


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("", "1:1", "ends too early"),
        ("{", "1:2", "before the closing }"),
        ('{"a": 1', "1:8", "expected a comma or }"),
        ('{"a" 1}', "1:6", "expected a colon"),
        ('{"a": 1,}', "1:8", "a comma after the last member"),
        ("[1,]", "1:3", "a comma after the last member"),
        ("{a: 1}", "1:2", "double quotes"),
        ("{'a': 1}", "1:2", "double quotes"),
        ('{\n  "a": nope\n}', "2:8", "expected a value"),
        ('{"a": NaN}', "1:7", "expected a value"),
        ('{"a": -Infinity}', "1:7", "expected a value"),
        ('{"a": 01}', "1:8", "expected a comma or }"),
        ('{"a": "b}', "1:7", "unterminated string"),
        ('{"a": "b\nc"}', "1:9", "invalid control character"),
        ('{"a": "\\q"}', "1:8", "invalid \\escape"),
        ('{"a": 1} x', "1:10", "unexpected text after the end"),
        ('{"a": 1, // why\n "b": 2}', "1:10", "comments are not allowed"),
        ('{\n "a": 1,\n "a": 2}', "3:2", "is repeated"),
        ("[" * 102, "1:102", "nested too deeply"),
        ("[" * 100_000, "1:102", "nested too deeply"),
    ],
)
def test_broken_file_is_refused_at_its_place(text: str, place: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value).startswith(f"settings.json:{place}: ")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("// first\n{}", {}),
        ('{"a": /* in between */ 1, // after\n}', {"a": 1}),
        ("[1, 2, /* last */ ]", [1, 2]),
        ('{"url": "https://example.org/*not*/"}', {"url": "https://example.org/*not*/"}),
        ('{"a": "// not", "b": [],}', {"a": "// not", "b": []}),
        ('{"a": 1, "a": 2}', {"a": 2}),  # an editor's file, where the last counts
    ],
)
def test_comments_and_trailing_commas_are_read_where_they_are_allowed(text: str, value: object) -> None:
    assert read(text, has_comments=True) == value


@pytest.mark.parametrize("text", ["{} /* no end", "{,}", "[,]", '{"a": 1,,}', "# no\n{}", "{'a': 1}"])
def test_comments_do_not_make_everything_right(text: str) -> None:
    with pytest.raises(ConfigError):
        read(text, has_comments=True)


@given(VALUES)
def test_what_json_writes_is_read_back_the_slow_way_too(value: object) -> None:
    text = json.dumps(value)
    assert read(text) == value
    assert read(f"// comment\n{text}", has_comments=True) == value


@given(st.text())
def test_any_text_gives_a_value_or_a_place(text: str) -> None:
    for has_comments in (False, True):
        with suppress(ConfigError):  # and no other
            read(text, has_comments=has_comments)


def test_place_of_a_value_that_json_accepts() -> None:
    document = Document(PATH, '{\n  "agent_servers": {\n    "x": {"args": ["a", 7]}\n  }\n}')
    assert document.place("agent_servers", "x", "args", 1) == "settings.json:3:25"
    assert document.place("agent_servers", "x", "command") == "settings.json:3:10"  # the nearest there is
    assert document.place() == "settings.json:1:1"


def test_missing_file_is_none_and_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    assert read_document(tmp_path / "none.json") is None
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf{}")
    document = read_document(tmp_path / "marked.json")
    assert document is not None
    assert document.value == {}


def test_text_that_is_not_utf8_is_refused_at_its_place(tmp_path: Path) -> None:
    path = tmp_path / "latin.json"
    path.write_bytes(b'{\n  "a": "\xe4"}')
    with pytest.raises(ConfigError, match=r"latin\.json:2:9: not UTF-8"):
        read_document(path)


def test_pipe_where_a_file_is_expected_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.json")
    with pytest.raises(ConfigError, match="not a file"):
        read_document(tmp_path / "settings.json")


def test_folder_and_endless_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a file"):
        read_document(tmp_path)
    with open(tmp_path / "large.json", "wb") as file:
        file.truncate(9 << 20)
    with pytest.raises(ConfigError, match="longer than 8 MiB"):
        read_document(tmp_path / "large.json")


def test_written_file_is_private_and_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles" / "settings.json", tmp_path / "config" / "settings.json"
    real.parent.mkdir()
    link.parent.mkdir()
    real.write_text("{}")
    link.symlink_to(real)
    write_document(link, {"ä": 1})
    assert link.is_symlink()
    assert json.loads(real.read_text()) == {"ä": 1}
    assert real.stat().st_mode & 0o777 == 0o600
    assert os.listdir(real.parent) == ["settings.json"]


def test_file_that_cannot_be_written_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    with pytest.raises(TypeError):
        write_document(path, {"a": object()})
    assert path.read_text() == "{}"
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_document(tmp_path / "file" / "settings.json", {})
