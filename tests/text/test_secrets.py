"""Keys that are known are masked in text, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.models.providers import CHOSEN, PROVIDERS
from dragoman.text.secrets import KEY_VARIABLES, Secrets, SplitMask

KEY = "sk-ant-0123456789"


def test_a_key_is_replaced_by_the_name_of_its_variable() -> None:
    secrets = Secrets({"ANTHROPIC_API_KEY": KEY, "PATH": "/usr/bin:/bin"})
    assert secrets.mask(f"invalid key {KEY}, and {KEY}!") == "invalid key [ANTHROPIC_API_KEY], and [ANTHROPIC_API_KEY]!"
    assert secrets.mask_bytes(b'{"a":"' + KEY.encode() + b'"}') == b'{"a":"[ANTHROPIC_API_KEY]"}'
    assert secrets.mask("/usr/bin:/bin") == "/usr/bin:/bin"


@pytest.mark.parametrize("value", ["", "x", "a-key", "1234567", None])
def test_a_value_that_is_too_short_for_a_key_is_left_alone(value: str | None) -> None:
    text = f"the answer {value} stays"
    assert Secrets({"OPENAI_API_KEY": value}).mask(text) == text


def test_a_key_that_begins_another_does_not_leave_the_rest_of_it() -> None:
    secrets = Secrets({"OPENAI_API_KEY": KEY}, {"GROQ_API_KEY": f"{KEY}-more"})
    assert secrets.mask(f"{KEY}-more {KEY}") == "[GROQ_API_KEY] [OPENAI_API_KEY]"


def test_a_number_is_not_a_key_because_json_writes_it_without_quotes() -> None:
    assert Secrets({"OPENAI_API_KEY": "1234567890"}).mask_bytes(b'{"id":1234567890}') == b'{"id":1234567890}'


def test_a_slash_that_json_escapes_does_not_hide_a_key() -> None:
    secrets = Secrets({"AWS_SECRET_ACCESS_KEY": "wJalr/XUtnFEMI/K7MDENG"})
    assert secrets.mask_bytes(rb'"wJalr\/XUtnFEMI\/K7MDENG"') == b'"[AWS_SECRET_ACCESS_KEY]"'


# One begins the other, one ends as it begins, and letters that occur in all of them.
SPLIT = Secrets({"OPENAI_API_KEY": "abababab"}, {"GROQ_API_KEY": "ababababc"}, {"HF_TOKEN": "cabcabcab"})


def test_what_follows_a_key_that_overlaps_itself_is_kept_back() -> None:
    mask = SplitMask(SPLIT)
    shown = mask.feed(b"ababababab") + mask.feed(b"ababab") + mask.finish()
    assert b"abababab" not in shown


@given(st.lists(st.sampled_from(["a", "b", "ab", "abab", "abababab", "ababababc", "cabcabcab", "c", " "])), st.data())
def test_any_split_of_a_text_is_masked_like_the_whole(words: list[str], data: st.DataObject) -> None:
    text = "".join(words).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    mask = SplitMask(SPLIT)
    pieces = [mask.feed(text[start:end]) for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown = b"".join(pieces) + mask.finish()
    for key in (b"abababab", b"ababababc", b"cabcabcab"):
        assert key not in shown
    assert shown == SPLIT.mask_bytes(text)
    if not any(key in text for key in (b"abababab", b"cabcabcab")):
        assert shown == text, "nothing else is changed or lost"


def test_ordinary_text_is_not_kept_back() -> None:
    mask = SplitMask(Secrets({"OPENAI_API_KEY": KEY}))
    assert mask.feed(b"hello world\n") == b"hello world\n"
    assert mask.feed(b"the ends") == b"the end", "an s could begin the key"
    assert mask.feed(b"k-another thing") == b"sk-another thing"


def test_the_keys_of_every_provider_are_known() -> None:
    variables = {name for provider in (*CHOSEN, *PROVIDERS.values()) for name in (*provider.variables, *provider.keys)}
    assert {name for name in variables if not name.endswith(("_URL", "_ENDPOINT"))} <= set(KEY_VARIABLES)
