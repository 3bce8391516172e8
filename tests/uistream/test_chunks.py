"""Chunks are read and written as the AI SDK has them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.uistream import chunks as c
from dragoman.uistream.chunks import ChunkError, decode_chunk, encode_chunk
from dragoman.uistream.partial_json import parse_partial
from tests.builtin.streams import FILES, STREAMS, lines

needs_streams = pytest.mark.skipif(not FILES, reason=f"no recorded streams in {STREAMS}")


@needs_streams
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_recorded_chunk_is_written_as_it_was_read(path) -> None:  # type: ignore[no-untyped-def]
    for line in lines(path):
        chunk = decode_chunk(line)
        assert json.loads(encode_chunk(chunk)) == json.loads(line)
        assert not isinstance(chunk, c.OtherChunk)


def test_a_chunk_of_an_unknown_type_is_kept() -> None:
    chunk = decode_chunk('{"type":"later","x":[1,{"y":2}]}')
    assert isinstance(chunk, c.OtherChunk)
    assert chunk.type == "later"
    assert json.loads(encode_chunk(chunk)) == {"type": "later", "x": [1, {"y": 2}]}


def test_unknown_members_are_ignored() -> None:
    assert decode_chunk('{"type":"text-delta","id":"1","delta":"a","later":true}') == c.TextDelta("1", "a")


def test_a_data_chunk_keeps_its_name_id_and_transience() -> None:
    chunk = decode_chunk('{"type":"data-plan","id":"p","data":{"a":1},"transient":true}')
    assert chunk == c.Data("plan", {"a": 1}, "p", True)


@pytest.mark.parametrize(
    "line", ["", "[]", '"text"', "{}", '{"type":1}', '{"type":"text-delta","id":"1"}', '{"type":"text-delta"', "\x00"]
)
def test_data_that_is_not_a_chunk_is_refused(line: str) -> None:
    with pytest.raises(ChunkError, match="not a chunk"):
        decode_chunk(line)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("[1", None),
        ("{", {}),
        ('{"pa', {}),
        ('{"path"', {}),
        ('{"path":', {}),
        ('{"path":"/a', {"path": "/a"}),
        ('{"path":"/a/b.py","te', {"path": "/a/b.py"}),
        ('{"text":"line\\', {"text": "line"}),
        ('{"text":"line\\n', {"text": "line\n"}),
        ('{"text":"\\u00e', {"text": ""}),
        ('{"text":"\\ud83d', {"text": ""}),
        ('{"text":"\\ud83d\\ude0', {"text": ""}),
        ('{"text":"a\\\\', {"text": "a\\"}),
        ('{"n":12', {"n": 12}),
        ('{"n":12,', {"n": 12}),
        ('{"b":tru', {}),
        ('{"a":1,"b":nul', {"a": 1}),
        ('{"list":["a","b', {"list": ["a", "b"]}),
        ('{"o":{"x":1,"y":"z', {"o": {"x": 1, "y": "z"}}),
        ('{"o":[{"c":"one"},{"c":"tw', {"o": [{"c": "one"}, {"c": "tw"}]}),
        ('{"a":"}{\\""', {"a": '}{"'}),
    ],
)
def test_unfinished_arguments_say_what_they_say_so_far(text: str, expected: object) -> None:
    assert parse_partial(text) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4), st.integers(0, 10_000), st.booleans())
def test_any_beginning_of_an_object_reads_as_a_part_of_it(value: dict[str, object], at: int, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    read = parse_partial(text[: at % (len(text) + 1)])
    assert read is None or is_part(read, value)
    assert parse_partial(text) == value


def is_part(part: object, whole: object) -> bool:
    """Members and elements in order; strings and numbers may be cut off."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and is_part(member, whole[name]) for name, member in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_part, part, whole))
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if type(part) is type(whole) is int:
        return str(whole).startswith(str(part))
    return type(part) is type(whole) and part == whole
