"""What is fetched, from where, and how much of it."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.registry.fetch import FetchError, check_address, fetch
from tests.registry.kit import sha256, site


def get(url: str, *, limit_bytes: int = 1 << 20, seconds: float = 20.0) -> bytes:
    into = io.BytesIO()
    digest = fetch(url, into, limit_bytes=limit_bytes, seconds=seconds)
    assert digest == sha256(into.getvalue())
    return into.getvalue()


def test_file_of_this_machine_is_fetched_with_its_checksum() -> None:
    with site() as place:
        place.pages["/a"] = b"x" * 200_000
        assert get(f"{place.address}/a") == b"x" * 200_000


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a",
        "http://127.0.0.1.example.org/a",
        "http://10.0.0.1/a",
        "http://0.0.0.0/a",
        "ftp://127.0.0.1/a",
        "file:///etc/passwd",
        "data:text/plain,hi",
        "//example.org/a",
        "/etc/passwd",
        "https:///a",
        "https://user:secret@example.org/a",
        "http://evil@127.0.0.1/a",
        "https://exa mple.org/",
        "https://example.org/\x1b[2J",
        "https://[bad/",
        "",
    ],
)
def test_address_that_is_not_https_or_here_is_refused(url: str) -> None:
    with pytest.raises(FetchError) as caught:
        get(url)
    assert "secret" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://example.org/a", "http://127.0.0.1:80/a", "http://[::1]/a", "http://localhost/a"]
)
def test_acceptable_addresses(url: str) -> None:
    check_address(url)


@pytest.mark.parametrize("target", ["http://example.org/evil", "file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirection_to_an_address_that_is_not_acceptable_is_refused(target: str) -> None:
    with site() as place:
        place.pages["/a"] = (302, {"Location": target}, b"")
        with pytest.raises(FetchError):
            get(f"{place.address}/a")


def test_redirection_on_this_machine_is_followed() -> None:
    with site() as place:
        place.pages["/a"] = (302, {"Location": "/b"}, b"")
        place.pages["/b"] = b"here"
        assert get(f"{place.address}/a") == b"here"


def test_server_elsewhere_cannot_send_us_to_this_machine() -> None:
    with pytest.raises(FetchError, match="only https"):
        check_address("http://127.0.0.1:8080/admin", came_from="https://example.org/a")


@pytest.mark.parametrize("headers", [{}, {"Content-Length": ""}])
def test_longer_than_allowed_is_refused_announced_or_not(headers: dict[str, str]) -> None:
    with site() as place:
        place.pages["/a"] = (200, headers, b"x" * 5000)
        with pytest.raises(FetchError, match="longer than 4000 bytes"):
            get(f"{place.address}/a", limit_bytes=4000)


def test_answer_that_ends_early_is_refused() -> None:
    with site() as place:
        place.pages["/a"] = (200, {"Content-Length": "100"}, b"x" * 50)
        with pytest.raises(FetchError, match="too early"):
            get(f"{place.address}/a")


def test_time_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 40))
    monkeypatch.setattr("dragoman.registry.fetch.time", SimpleNamespace(monotonic=lambda: float(next(now))))
    with site() as place:
        place.pages["/a"] = b"x" * 300_000
        with pytest.raises(FetchError, match="not complete after 60 seconds"):
            get(f"{place.address}/a", seconds=60.0)


def test_error_of_the_server_and_no_server_are_reported() -> None:
    with site() as place:
        address = place.address
        with pytest.raises(FetchError, match="answered 404"):
            get(f"{address}/none")
    with pytest.raises(FetchError, match="check the address and the network"):
        get(f"{address}/a")


def test_this_machine_is_reached_without_the_users_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with site() as place:
        place.pages["/a"] = b"direct"
        assert get(f"{place.address}/a") == b"direct"


def test_progress_is_reported() -> None:
    seen: list[Any] = []
    with site() as place:
        place.pages["/a"] = b"x" * 100
        fetch(
            f"{place.address}/a", io.BytesIO(), limit_bytes=1000, seconds=20, progress=lambda *sizes: seen.append(sizes)
        )
    assert seen[-1] == (100, 100)
