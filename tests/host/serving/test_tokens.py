"""Tokens and tickets: what is kept of them, who finds them, and when they are no longer valid."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.host.serving.limits import Buckets
from dragoman.host.serving.tokens import HostToken, HostTokens, Tickets, common_folders


def token(name: str = "laptop", **facts: object) -> HostToken:
    return HostToken(**{"name": name, "digest": "", "user": "ada", **facts})  # type: ignore[arg-type]  # facts of a test


def test_a_token_is_found_by_its_secret_and_kept_as_a_hash_that_only_its_owner_can_read(tmp_path: Path) -> None:
    tokens = HostTokens(tmp_path / "serve" / "tokens.json")
    secret = tokens.add(token())
    assert len(secret) > 43
    kept = (tmp_path / "serve" / "tokens.json").read_text()
    assert secret not in kept
    assert secret.removeprefix("dgm_") not in kept
    assert stat.S_IMODE(os.stat(tmp_path / "serve" / "tokens.json").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "serve").st_mode) == 0o700
    found = tokens.find(secret)
    assert found is not None
    assert (found.name, found.user) == ("laptop", "ada")
    assert tokens.find(secret + "x") is None
    assert tokens.find("") is None
    assert tokens.find(found.digest) is None


def test_another_program_sees_at_once_that_a_token_was_revoked(tmp_path: Path) -> None:
    here, there = HostTokens(tmp_path / "tokens.json"), HostTokens(tmp_path / "tokens.json")
    secret = here.add(token())
    assert there.find(secret) is not None
    here.revoke("laptop")
    assert there.find(secret) is None
    assert there.get("laptop") is None
    with pytest.raises(ConfigError, match="no token 'laptop'"):
        there.revoke("laptop")


def test_a_token_ends_when_it_expires(tmp_path: Path) -> None:
    now = [1000.0]
    tokens = HostTokens(tmp_path / "tokens.json", clock=lambda: now[0])
    secret = tokens.add(token(expires_at=1060.0))
    assert tokens.find(secret) is not None
    now[0] = 1060.0
    assert tokens.find(secret) is None
    assert tokens.get("laptop") is None
    assert [each.name for each in tokens.all()] == ["laptop"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": "../x"}, "cannot name a token"),
        ({"name": "two words"}, "cannot name a token"),
        ({"user": ""}, "cannot name a token"),
        ({"rights": ("view", "everything")}, "not a right"),
        ({"rights": ("prompt",)}, "without the right view"),
        ({"folders": ("src",)}, "must be absolute"),
    ],
)
def test_a_wrong_token_is_refused_with_the_reason(wrong: dict[str, object], why: str, tmp_path: Path) -> None:
    tokens = HostTokens(tmp_path / "tokens.json")
    with pytest.raises(ConfigError, match=why):
        tokens.add(token(**{"name": "laptop", **wrong}))  # type: ignore[arg-type]  # wrong facts
    assert tokens.all() == []


def test_a_name_is_not_given_twice_and_a_broken_file_lets_no_client_in(tmp_path: Path) -> None:
    tokens = HostTokens(tmp_path / "tokens.json")
    tokens.add(token())
    with pytest.raises(ConfigError, match="already"):
        tokens.add(token())
    (tmp_path / "tokens.json").write_text("{broken")
    with pytest.raises(ConfigError, match="broken"):
        tokens.find("x")


def test_a_ticket_is_good_once_for_its_origin_and_not_for_long() -> None:
    now = [0.0]
    tickets = Tickets(clock=lambda: now[0])
    page = b"https://agents.example"
    first = tickets.issue("laptop", page)
    assert tickets.use(first, page) == "laptop"
    assert tickets.use(first, page) is None
    stolen = tickets.issue("laptop", page)
    assert tickets.use(stolen, b"https://evil.example") is None
    assert tickets.use(stolen, page) is None, "a ticket that was tried elsewhere is used up"
    late = tickets.issue("laptop", None)
    now[0] = 30.0
    assert tickets.use(late, None) is None
    assert tickets.use("made-up", None) is None


def test_a_bucket_holds_so_much_and_fills_with_time() -> None:
    now = [0.0]
    buckets = Buckets(2.0, 3.0, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(4)] == [True, True, True, False]
    assert buckets.take("b"), "each name has its own"
    assert buckets.seconds_until_next("a") >= 1
    now[0] = 0.5
    assert [buckets.take("a") for _ in range(2)] == [True, False]


def test_folders_are_those_that_both_the_host_and_the_token_allow(tmp_path: Path) -> None:
    inner = tmp_path / "src" / "inner"
    inner.mkdir(parents=True)
    outer, src = str(tmp_path), str(tmp_path / "src")
    assert common_folders(None, None) is None
    assert common_folders(None, (src,)) == (src,)
    assert common_folders((src,), None) == (src,)
    assert common_folders((str(inner),), (src,)) == (str(inner),)
    assert common_folders((outer,), (src,)) == (src,)
    assert common_folders((src,), ("/elsewhere",)) == ()
    assert common_folders((f"{src}-evil",), (src,)) == ()
