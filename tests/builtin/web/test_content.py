"""The bytes of a response become text, whatever their declared type is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.web.content import decode, read_kind

UMLAUTS = "Grüße aus Köln"


@pytest.mark.parametrize(
    ("body", "declared", "text"),
    [
        (UMLAUTS.encode(), "utf-8", UMLAUTS),
        (UMLAUTS.encode(), None, UMLAUTS),
        (UMLAUTS.encode(), "UTF8", UMLAUTS),
        (UMLAUTS.encode("latin-1"), "iso-8859-1", UMLAUTS),
        ("“€”".encode("cp1252"), "iso-8859-1", "“€”"),
        (UMLAUTS.encode(), "iso-8859-1", UMLAUTS),
        (UMLAUTS.encode(), "us-ascii", UMLAUTS),
        (UMLAUTS.encode("latin-1"), "utf-8", UMLAUTS),
        (UMLAUTS.encode("latin-1"), None, UMLAUTS),
        (UMLAUTS.encode(), "no-such-charset", UMLAUTS),
        (UMLAUTS.encode(), "punycode", UMLAUTS),
        (UMLAUTS.encode(), "hex", UMLAUTS),
        (UMLAUTS.encode(), "utf-7", UMLAUTS),
        ("Привет".encode("cp1251"), "windows-1251", "Привет"),
        ("Привет".encode("koi8-r"), "koi8-r", "Привет"),
        ("日本語".encode("shift_jis"), "Shift_JIS", "日本語"),
        ("日本語".encode("shift_jis"), "x-sjis", "日本語"),
        ("日本語".encode("euc-jp"), "EUC-JP", "日本語"),
        ("中文".encode("gb18030"), "gb2312", "中文"),
        ("ไทย".encode("cp874"), "windows-874", "ไทย"),
        ("\ufeff" + UMLAUTS, "iso-8859-1", UMLAUTS),
        (UMLAUTS.encode("utf-16"), "utf-8", UMLAUTS),
        (UMLAUTS.encode("utf-16-le"), "utf-16", UMLAUTS),
        (UMLAUTS.encode() + b" \xff", "utf-8", UMLAUTS + " \ufffd"),
        (b"a\r\nb\rc\x00\x1b[0m", "utf-8", "a\nb\nc[0m"),
        (b"", None, ""),
    ],
)
def test_text_is_read_by_what_its_bytes_and_its_server_say(body: bytes | str, declared: str | None, text: str) -> None:
    assert decode(body.encode() if isinstance(body, str) else body, declared) == text


@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="windows-1251">',
        "<meta charset=windows-1251>",
        '<META http-equiv="Content-Type" content="text/html; charset=windows-1251">',
        '<?xml version="1.0" encoding="windows-1251"?>',
    ],
)
def test_a_page_may_say_its_charset_itself(head: str) -> None:
    body = f"<!-- x -->{head}Привет" if "xml" not in head else f"{head}Привет"
    assert "Привет" in decode(body.encode("cp1251"), None, is_html=True)


def test_the_server_is_believed_before_the_page() -> None:
    assert "Привет" in decode("<meta charset=latin-1>Привет".encode("koi8-r"), "koi8-r", is_html=True)


def test_a_page_that_calls_itself_wide_cannot_be() -> None:
    assert "Grüße" in decode('<meta charset="utf-16">Grüße'.encode(), None, is_html=True)


@given(st.binary(max_size=300), st.one_of(st.none(), st.text(max_size=20)), st.booleans())
def test_any_bytes_become_text(body: bytes, declared: str | None, is_html: bool) -> None:
    text = decode(body, declared, is_html=is_html)
    assert not set(text) & set(map(chr, (*range(9), 11, 12, 13, *range(14, 32), 127)))


@pytest.mark.parametrize(
    ("content_type", "body", "name"),
    [
        ("text/html", b"", "html"),
        ("TEXT/HTML; charset=x", b"", "html"),
        ("application/xhtml+xml", b"", "html"),
        ("", b"  <!DOCTYPE html><p>", "html"),
        ("", b"<!-- hello --><html>", "html"),
        ("", b"plain", "text"),
        ("text/plain", b"<!doctype html>", "text"),
        ("text/markdown", b"# x", "text"),
        ("text/csv", b"a,b", "text"),
        ("application/json", b"{}", "text"),
        ("application/vnd.api+json", b"{}", "text"),
        ("application/atom+xml", b"<feed/>", "text"),
        ("application/yaml", b"a: b", "text"),
        ("text/plain", b"\x7fELF\x00\x00", "other"),
        ("text/html", b"\x00\x01", "other"),
        ("text/plain; charset=utf-16le", "hi".encode("utf-16-le"), "text"),
        ("", b"\x89PNG\x00", "other"),
        ("image/png", b"\x89PNG", "other"),
        ("image/svg+xml", b"<svg/>", "other"),
        ("application/pdf", b"%PDF", "other"),
        ("application/octet-stream", b"text", "other"),
        ("application/zip", b"PK", "other"),
    ],
)
def test_only_text_is_taken_for_text(content_type: str, body: bytes, name: str) -> None:
    assert read_kind(content_type, body).name == name
