"""URLs: one spelling, nothing hidden."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.tools.tool import ToolError
from dragoman.builtin.web.url import join, read_url


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("https://Example.org", "https://example.org/"),
        (" https://example.org/a?b=c#d ", "https://example.org/a?b=c"),
        ("HTTP://example.org:80/", "http://example.org/"),
        ("https://example.org:443/x", "https://example.org/x"),
        ("http://example.org:8080/x", "http://example.org:8080/x"),
        ("http://bücher.example/ä?ü=ö", "http://xn--bcher-kva.example/%C3%A4?%C3%BC=%C3%B6"),
        ("http://example.org/a%20b?x=%2F", "http://example.org/a%20b?x=%2F"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::0001]:8080/x", "http://[::1]:8080/x"),
        ("http://example.org?x", "http://example.org/?x"),
    ],
)
def test_a_url_is_read_into_one_spelling(written: str, read: str) -> None:
    assert read_url(written).url == read
    assert read_url(read).url == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a URL"),
        ("example.org", "give an http or https URL"),
        ("//example.org/", "give an http or https URL"),
        ("file:///etc/passwd", "give an http or https URL"),
        ("ftp://example.org/", "give an http or https URL"),
        ("javascript:alert(1)", "give an http or https URL"),
        ("data:text/plain,x", "give an http or https URL"),
        ("http://", "is not the name"),
        ("http:///path", "is not the name"),
        ("http://user:pw@example.org/", "user name or password"),
        ("http://example.org@127.0.0.1/", "user name or password"),
        ("http://example.org/a b", "not a URL"),
        ("http://example.org/\r\nHost: evil", "not a URL"),
        ("http://example.org\\@evil.org/", "not a URL"),
        ("http://example.org:99999/", "not a URL"),
        ("http://example.org:x/", "not a URL"),
        ("http://[::1/", "not a URL"),
        ("http://exa mple.org/", "not a URL"),
        ("http://1.2.3.400/", "not an IPv4 address"),
        ("http://example.org/" + "x" * 9000, "not a URL"),
    ],
)
def test_a_url_that_cannot_be_fetched_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        read_url(text)


@given(st.text(max_size=60), st.sampled_from(["http://", "https://", "http://example.org", "http://example.org/", ""]))
def test_any_text_is_a_url_or_refused(text: str, start: str) -> None:
    try:
        url = read_url(start + text).url
    except ToolError:
        return
    assert url.isascii()
    assert url.isprintable()
    assert " " not in url
    assert read_url(url).url == url


def test_links_are_joined_and_broken_ones_are_empty() -> None:
    assert join("https://example.org/a/b", "../c") == "https://example.org/c"
    assert join("https://example.org/a/b", "http://[") == ""
