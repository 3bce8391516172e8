"""The environment of the models: which of several keys counts, and what stays out of the process's own."""

import os
from pathlib import Path

import pytest

from dragoman.builtin.models.keys import NO_KEY, ModelEnvironment
from dragoman.builtin.models.providers import PROVIDERS, default_model, key_owner, login_providers
from dragoman.settings.credentials import Credentials
from dragoman.text.secrets import KEY_VARIABLES, Secrets

ANTHROPIC, GOOGLE, OPENAI = PROVIDERS["anthropic"], PROVIDERS["google"], PROVIDERS["openai"]


@pytest.fixture
def stored(tmp_path: Path) -> Credentials:
    stored = Credentials(tmp_path)
    stored.put("anthropic", "stored-anthropic")
    stored.put("google", "stored-google")
    return stored


def test_a_client_comes_before_the_environment_and_that_before_the_file(stored: Credentials) -> None:
    env: dict[str, str] = {}
    models = ModelEnvironment(stored, env)
    assert (ANTHROPIC.key(models), models.source_of(ANTHROPIC)) == ("", "")
    assert models.reread()
    assert not models.reread()
    assert (ANTHROPIC.key(models), models.source_of(ANTHROPIC)) == ("stored-anthropic", "file")
    assert default_model(models) == f"anthropic:{ANTHROPIC.models[0]}"
    env["ANTHROPIC_API_KEY"] = "set-anthropic"
    assert (ANTHROPIC.key(models), models.source_of(ANTHROPIC)) == ("set-anthropic", "ANTHROPIC_API_KEY")
    models.pass_key(ANTHROPIC, "passed-anthropic")
    assert (ANTHROPIC.key(models), models.source_of(ANTHROPIC)) == ("passed-anthropic", "client")


@pytest.mark.parametrize("name", GOOGLE.variables)
def test_any_variable_of_a_provider_comes_before_its_stored_key(stored: Credentials, name: str) -> None:
    models = ModelEnvironment(stored, {name: "set-google"})
    models.reread()
    assert (GOOGLE.key(models), models.source_of(GOOGLE)) == ("set-google", name)
    assert "stored-google" not in models.values()


def test_an_empty_variable_does_not_hide_a_stored_key(stored: Credentials) -> None:
    models = ModelEnvironment(stored, {"ANTHROPIC_API_KEY": ""})
    models.reread()
    assert ANTHROPIC.key(models) == "stored-anthropic"


def test_no_program_inherits_a_key_and_all_of_them_are_masked(stored: Credentials) -> None:
    models = ModelEnvironment(stored)
    models.reread()
    models.pass_key(OPENAI, "passed-openai-key")
    models.set_address(GOOGLE, "http://127.0.0.1:1", {"X-Goog-Api-Key": "header-google", "Other": "Bearer other-key"})
    keys = ("stored-anthropic", "stored-google", "passed-openai-key", "header-google", "other-key")
    assert [value for value in os.environ.values() if value in keys] == []
    shown = Secrets({}).mask(" ".join(keys))
    assert [key for key in keys if key in shown] == []


def test_an_address_is_used_with_the_key_of_its_header(stored: Credentials) -> None:
    models = ModelEnvironment(stored, {"ANTHROPIC_API_KEY": "set-anthropic"})
    models.set_address(ANTHROPIC, "http://127.0.0.1:1/v9", {"Authorization": "Bearer from-a-header"})
    assert ANTHROPIC.base_url(models) == "http://127.0.0.1:1/v9"
    assert ANTHROPIC.key(models) == "from-a-header"
    assert models.headers_of(ANTHROPIC) == {"authorization": "Bearer from-a-header"}
    models.set_address(ANTHROPIC, "http://127.0.0.1:2", {})
    assert (ANTHROPIC.key(models), models.headers_of(ANTHROPIC)) == (NO_KEY, {})
    models.disable(ANTHROPIC)
    assert ANTHROPIC.key(models) == ""
    assert "ANTHROPIC_API_KEY" not in models
    assert ANTHROPIC.base_url(models) == ANTHROPIC.url
    models.pass_key(ANTHROPIC, "passed-again")
    assert ANTHROPIC.key(models) == "passed-again"


def test_names_with_one_variable_have_one_key() -> None:
    owners = {id: owner.id for id in PROVIDERS if (owner := key_owner(id)) is not None}
    assert owners["openai-chat"] == owners["openai-compatible"] == owners["openai"] == "openai"
    assert "bedrock" not in owners
    assert "azure" not in owners
    variables = [provider.key_variable for provider in login_providers()]
    assert len(variables) == len(set(variables))
    assert set(variables) <= set(KEY_VARIABLES), "a key that is stored can be masked"


def test_a_broken_file_leaves_what_was_read(stored: Credentials) -> None:
    models = ModelEnvironment(stored, {})
    models.reread()
    stored.path.write_text("{")
    assert models.is_outdated()
    assert not models.reread()
    assert ANTHROPIC.key(models) == "stored-anthropic"
