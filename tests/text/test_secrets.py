"""Keys that are known are masked in text, and nothing else is."""

import pytest

from dragoman.builtin.models.providers import CHOSEN, PROVIDERS
from dragoman.text.secrets import KEY_VARIABLES, Secrets

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


def test_the_keys_of_every_provider_are_known() -> None:
    variables = {name for provider in (*CHOSEN, *PROVIDERS.values()) for name in provider.variables}
    assert {name for name in variables if not name.endswith(("_URL", "_ENDPOINT"))} <= set(KEY_VARIABLES)
