"""Stored keys: a private file, or a keyring that may not be there or not answer."""

import os
import stat
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.errors import ConfigError
from dragoman.settings import credentials as system_keyring
from dragoman.settings.credentials import Credentials

KEY = "sk-ant-0123456789"


class Ring:
    """The three functions of the package `keyring`, for one user."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def set_password(self, service: str, name: str, key: str) -> None:
        self.kept[service, name] = key

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    ring = Ring()
    monkeypatch.setitem(sys.modules, "keyring", ring)
    return ring


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("is_there", [False, True])
def test_only_the_owner_can_read_the_file_and_its_folder(tmp_path: Path, is_there: bool) -> None:
    before = os.umask(0)
    try:
        if is_there:
            (tmp_path / "config").mkdir()
            (tmp_path / "config" / "credentials.json").write_text('{"version": 1, "keys": {}}')
        stored = Credentials(tmp_path / "config")
        stored.put("anthropic", KEY)
    finally:
        os.umask(before)
    assert (mode_of(stored.path), mode_of(stored.path.parent)) == (0o600, 0o700)
    assert Credentials(tmp_path / "config").keys()["anthropic"].read() == KEY


def test_a_key_is_replaced_and_removed_and_others_stay(tmp_path: Path) -> None:
    stored = Credentials(tmp_path)
    assert stored.keys() == {}
    stored.put("anthropic", "first-key")
    stored.put("openai", "another-key")
    stored.put("anthropic", KEY)
    assert {id: entry.read() for id, entry in stored.keys().items()} == {"anthropic": KEY, "openai": "another-key"}
    removed = stored.remove("anthropic")
    assert removed is not None
    assert stored.remove("anthropic") is None
    assert KEY not in stored.path.read_text()
    assert list(stored.keys()) == ["openai"]


def test_what_another_program_stores_is_seen(tmp_path: Path) -> None:
    stored, other = Credentials(tmp_path), Credentials(tmp_path)
    assert not stored.keys()
    before = stored.stamp()
    other.put("anthropic", KEY)
    assert stored.stamp() != before
    assert stored.stamp() == stored.stamp()
    assert list(stored.keys()) == ["anthropic"]
    other.path.unlink()
    assert stored.stamp() is None
    assert stored.keys() == {}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 2, "keys": {}}',
        f'{{"version": 1, "keys": {{"openai": "{KEY}"}}}}',
        f'{{"version": 1, "keys": {{"openai": {{"kye": "{KEY}"}}}}}}',
    ],
)
def test_a_file_that_is_broken_is_an_error_without_its_content(tmp_path: Path, text: str) -> None:
    stored = Credentials(tmp_path)
    stored.path.write_text(text)
    for use in (stored.keys, lambda: stored.put("openai", KEY), lambda: stored.remove("openai")):
        with pytest.raises(ConfigError, match=r"credentials\.json") as raised:
            use()
        assert KEY not in str(raised.value)
    assert stored.path.read_text() == text


def test_a_key_in_the_keyring_is_not_in_the_file(tmp_path: Path, ring: Ring) -> None:
    stored = Credentials(tmp_path)
    stored.put("anthropic", KEY, "keyring")
    assert KEY not in stored.path.read_text()
    assert ring.kept == {("dragoman", "anthropic"): KEY}
    assert Credentials(tmp_path).keys()["anthropic"].read() == KEY
    stored.remove("anthropic")
    assert ring.kept == {}
    assert stored.keys() == {}


def test_a_key_that_moves_to_the_file_does_not_stay_in_the_keyring(tmp_path: Path, ring: Ring) -> None:
    stored = Credentials(tmp_path)
    stored.put("anthropic", "old-key-0123", "keyring")
    stored.put("anthropic", KEY)
    assert ring.kept == {}
    assert stored.keys()["anthropic"].read() == KEY


def test_without_a_keyring_nothing_is_stored_and_the_error_names_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Credentials(tmp_path)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match="pip install keyring, or store the key in the file"):
        stored.put("anthropic", KEY, "keyring")

    def fail(*words: str) -> None:
        raise RuntimeError("No recommended backend was available")

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(set_password=fail))
    with pytest.raises(ConfigError, match="No recommended backend was available; or store the key in the file"):
        stored.put("anthropic", KEY, "keyring")
    assert not stored.path.exists()


def test_a_keyring_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlocked = threading.Event()
    locked = SimpleNamespace(set_password=lambda *words: unlocked.wait(30))
    monkeypatch.setitem(sys.modules, "keyring", locked)
    monkeypatch.setattr(system_keyring, "SECONDS", 0.05)
    try:
        with pytest.raises(ConfigError, match="did not answer within"):
            Credentials(tmp_path).put("anthropic", KEY, "keyring")
    finally:
        unlocked.set()


def test_a_keyring_that_lost_the_key_names_how_to_store_it_again(tmp_path: Path, ring: Ring) -> None:
    stored = Credentials(tmp_path)
    stored.put("anthropic", KEY, "keyring")
    ring.kept.clear()
    with pytest.raises(ConfigError, match="dragoman agent login anthropic --keyring"):
        stored.keys()["anthropic"].read()
    assert stored.remove("anthropic") is not None
