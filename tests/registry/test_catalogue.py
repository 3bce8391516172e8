"""The ACP registry: read with tolerance, kept with its age, never replaced by something broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.registry.catalogue import FRESH_SECONDS, cached_catalogue, read_catalogue, refresh_catalogue
from tests.registry.kit import catalogue, lark, site, write

NPX = {"package": "@lark/agent@0.4.2", "args": ["--acp"]}
BINARY = {"linux-x86_64": {"archive": "https://example.org/lark.tar.gz", "cmd": "./lark", "sha256": "0" * 64}}


def test_entry_is_read_with_all_its_distributions() -> None:
    uvx = {"package": "lark-agent==0.4.2", "cmd": "lark", "env": {"LARK_LOG": "warn"}}
    entry = {**lark(npx=NPX, uvx=uvx, binary=BINARY), "authors": ["L"], "website": "https://example.org", "icon": "i"}
    [listed] = catalogue(entry).agents.values()
    assert listed.kinds == ("npx", "uvx", "binary")
    assert listed.distribution.npx is not None
    assert listed.distribution.npx.args == ["--acp"]
    assert listed.distribution.uvx is not None
    assert (listed.distribution.uvx.cmd, listed.distribution.uvx.env) == ("lark", {"LARK_LOG": "warn"})
    assert listed.distribution.binary["linux-x86_64"].sha256 == "0" * 64


@pytest.mark.parametrize(
    "change",
    [
        {"id": "Lark"},
        {"id": "../lark"},
        {"id": "lark\n"},
        {"id": 3},
        {"version": "latest"},
        {"version": "1/../../x"},
        {"version": ""},
        {"distribution": {}},
        {"distribution": {"docker": {"image": "x"}}},
        {"distribution": {"npx": {"args": []}}},
        {"distribution": {"npx": {"package": "a", "args": "x"}}},
        {"distribution": {"npx": {"package": "a", "args": ["a\0b"]}}},
        {"distribution": {"npx": {"package": "a", "env": {"A=B": "c"}}}},
        {"distribution": {"binary": {"linux-x86_64": {"archive": "https://example.org/a"}}}},
        {"name": None},
    ],
)
def test_entry_that_is_not_understood_is_left_out_and_counted(change: dict[str, Any]) -> None:
    good = {**lark(npx=NPX), "id": "good"}
    found = catalogue({**lark(npx=NPX), **change}, good)
    assert list(found.agents) == ["good"]
    assert len(found.skipped) == 1


def test_second_entry_of_one_id_does_not_replace_the_first() -> None:
    found = catalogue(lark(npx=NPX), {**lark(npx=NPX), "name": "Impostor"})
    assert found.agents["lark-agent"].name == "Lark"
    assert "listed twice" in found.skipped[0]


@pytest.mark.parametrize("value", [[], {}, {"agents": {}}, None, "x"])
def test_what_is_not_a_registry_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="not an ACP registry"):
        read_catalogue(value, "here", 0.0)


def test_registry_is_fetched_from_an_address_and_kept_with_its_age(tmp_path: Path) -> None:
    assert cached_catalogue(tmp_path) is None
    with site() as place:
        place.pages["/registry.json"] = json.dumps({"version": "1.0.0", "agents": [lark(npx=NPX)]}).encode()
        fetched = refresh_catalogue(tmp_path, f"{place.address}/registry.json")
    kept = cached_catalogue(tmp_path)
    assert kept is not None
    assert kept == fetched
    assert kept.is_fresh
    assert kept.age_seconds(now=kept.fetched + 90) == 90
    assert kept.age_seconds(now=kept.fetched - 90) == 0
    path = tmp_path / "registry.json"
    old = {**json.loads(path.read_text()), "fetched": kept.fetched - FRESH_SECONDS - 1}
    path.write_text(json.dumps(old))
    kept = cached_catalogue(tmp_path)
    assert kept is not None
    assert not kept.is_fresh


def test_registry_is_read_from_a_file(tmp_path: Path) -> None:
    source = write(tmp_path / "source.json", {"agents": [lark(npx=NPX)], "extensions": []})
    assert list(refresh_catalogue(tmp_path / "cache", str(source)).agents) == ["lark-agent"]
    with pytest.raises(ConfigError, match="no such file"):
        refresh_catalogue(tmp_path / "cache", str(tmp_path / "none.json"))


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"[" * 100_000, b"\xff"])
def test_broken_answer_leaves_the_kept_copy_alone(tmp_path: Path, answer: bytes) -> None:
    source = write(tmp_path / "source.json", {"agents": [lark(npx=NPX)]})
    refresh_catalogue(tmp_path, str(source))
    with site() as place:
        place.pages["/r"] = answer
        with pytest.raises(ConfigError):
            refresh_catalogue(tmp_path, f"{place.address}/r")
    kept = cached_catalogue(tmp_path)
    assert kept is not None
    assert list(kept.agents) == ["lark-agent"]


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"document": {}, "origin": "", "fetched": "x"}'])
def test_broken_copy_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    write(tmp_path / "registry.json", content)
    assert cached_catalogue(tmp_path) is None
