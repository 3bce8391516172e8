"""Front matter of Markdown files, written as people write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.context.front_matter import read_front_matter


def test_a_file_without_front_matter_is_all_text() -> None:
    matter = read_front_matter("\ufeffDo this.\n---\nAnd that.\n")
    assert (matter.members, matter.body) == ({}, "Do this.\n---\nAnd that.")


def test_a_value_may_hold_colons_without_quotes() -> None:
    matter = read_front_matter("---\ndescription: Use when: a test fails, or http://x:1 is down\n---\nBody\n")
    assert matter.text("description") == "Use when: a test fails, or http://x:1 is down"
    assert matter.body == "Body"


@pytest.mark.parametrize(
    "written",
    [
        "tools: read, grep",
        "tools: [read, 'grep']",
        "tools:\n  - read\n  - grep  # to find it",
        'tools:\n- read\n- "grep"',
        "Tools: read,grep # both",
        "tools: [read,\n  grep]",
    ],
)
def test_a_list_is_dashes_brackets_or_commas(written: str) -> None:
    assert read_front_matter(f"---\r\n{written}\r\n---\r\nx").names("tools") == ("read", "grep")


def test_a_comma_in_brackets_does_not_split_a_name() -> None:
    matter = read_front_matter("---\nallowed-tools: Bash(git add:*, git diff), Read\n---\n")
    assert matter.names("allowed_tools".replace("_", "-")) == ("Bash(git add:*, git diff)", "Read")


def test_longer_texts_are_folded_or_kept() -> None:
    text = "---\na: >\n  one\n  two\n\n  three\nb: |\n  # one\n    two\nc: one\n  two\n---\n"
    matter = read_front_matter(text)
    assert matter.text("a") == "one two\n\nthree"
    assert matter.text("b") == "# one\n  two"
    assert matter.text("c") == "one two"


def test_quotes_and_comments_are_taken_off_and_underscores_are_dashes() -> None:
    matter = read_front_matter('---\n# about\nname: "a # b" # c\nmax_steps: 5 # few\nx: it\'s # y\n---\n')
    assert (matter.text("name"), matter.text("max-steps"), matter.text("x")) == ("a # b", "5", "it's")
    assert matter.flag("name") is None
    assert read_front_matter("---\nbackground: Yes\n---\n").flag("background") is True


def test_a_line_that_is_not_understood_is_reported_with_its_number() -> None:
    matter = read_front_matter("---\nname: a\n\nwrong line\n  more\n---\nBody")
    assert matter.problems == ("line 4 is not `key: value`", "line 5 is not `key: value`")
    assert matter.text("name") == "a"


@given(st.text(alphabet=st.sampled_from("ab:-# \n\t'\"[],|>"), max_size=80))
def test_any_text_is_read(text: str) -> None:
    matter = read_front_matter(f"---\n{text}\n---\nBody")
    for key in matter.members:
        assert isinstance(matter.text(key), str)
        assert all(matter.names(key) or ("x",))
