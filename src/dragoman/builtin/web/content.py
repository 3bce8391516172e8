"""The body of a response as text: its kind and its character set.

Owns which media types are read, and the charsets. As in browsers, a declared charset is used unless the bytes
contradict it. Loaded with the first page.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from msgspec import Struct

_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS: Final = frozenset(
    "application/" + name
    for name in (
        *("json", "xml", "javascript", "x-javascript", "ecmascript", "typescript", "ld+json", "x-ndjson", "ndjson"),
        *("yaml", "x-yaml", "toml", "x-toml", "sql", "graphql", "x-sh", "x-httpd-php", "x-tex", "x-subrip", "rtf"),
    )
)
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_META: Final = re.compile(rb"<meta\b[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML: Final = re.compile(rb"\s*<\?xml\b[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_OPENING: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_EXAMINED: Final = 4096  # browsers search the first 1024 for a <meta>; pages with long comments have it later
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# The charsets of browsers. Python has more codecs, some of them slow and some of them not charsets at all.
_KNOWN: Final = frozenset(
    (
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "koi8-r", "koi8-u", "cp866", "cp874", "mac-roman"),
        *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *(f"cp125{number}" for number in range(9)),
        *("gbk", "gb18030", "big5", "euc_jp", "shift_jis", "iso2022_jp", "euc_kr", "cp949", "cp932"),
    )
)
# Labels that mean another charset on the web.
_MEANT: Final = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-16": "utf-16-le",
}
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class ContentKind(Struct, frozen=True):
    """The kind of a body: `html`, `text` or `other`, and its declared media type."""

    name: str
    media_type: str
    charset: str | None = None


def read_kind(content_type: str, body: bytes) -> ContentKind:
    """Return the kind of a body, by its declared type and its first bytes."""
    media_type = content_type.partition(";")[0].strip().lower()
    found = _CHARSET.search(content_type)
    charset = found[1] if found else None
    if media_type in _HTML:
        name = "html"
    elif not media_type or media_type.startswith("text/") or media_type in _TEXTS:
        name = "html" if not media_type and _OPENING.match(body) else "text"
    else:
        name = "text" if media_type.endswith(("+json", "+xml", "+yaml")) and media_type != "image/svg+xml" else "other"
    if name != "other" and _is_binary(body, charset):
        name = "other"
    return ContentKind(name, media_type or "of no declared type", charset)


def decode(body: bytes, declared: str | None, *, is_html: bool = False) -> str:
    """Return the text, with `\\n` as line end and without control characters. Never fails."""
    text = _decode(body, declared, is_html=is_html)
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).removeprefix("\ufeff")


def _decode(body: bytes, declared: str | None, *, is_html: bool) -> str:
    for bom, encoding in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(encoding, "replace")
    encoding = _find(declared) or _declared_inside(body, is_html) or "utf-8"
    if encoding == "utf-8":
        return _utf8_or_western(body)
    if encoding == "cp1252":
        # Many servers declare this for everything. Text of another charset is not valid UTF-8 by chance.
        try:
            return body.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return body.decode(encoding, "replace")


def _utf8_or_western(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if broken > 1 and broken > sum(len(run) for run in re.findall(r"[^\x00-\x7f\ufffd]+", text)):
        return body.decode("cp1252", "replace")
    return text


def _declared_inside(body: bytes, is_html: bool) -> str | None:
    found = (_META.search if is_html else _XML.match)(body[:_EXAMINED]) or _XML.match(body[:_EXAMINED])
    encoding = _find(found[1].decode("ascii", "replace")) if found else None
    # A declaration that could be read byte by byte is not in UTF-16.
    return "utf-8" if encoding and encoding.startswith("utf-16") else encoding


def _find(label: str | None) -> str | None:
    """Return Python's name of a charset, or None if browsers do not have it."""
    try:
        name = codecs.lookup((label or "").lower().removeprefix("x-").replace("windows-", "cp")).name
    except (LookupError, ValueError):
        return None
    name = _MEANT.get(name, name)
    return name if name in _KNOWN else None


def _is_binary(body: bytes, charset: str | None) -> bool:
    is_wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or (_find(charset) or "").startswith("utf-16")
    return not is_wide and b"\0" in body[:_EXAMINED]
