"""JSON lines by the C parts of Python's `json`, without loading its Python parts.

`json` loads `re`, `enum` and `collections` for things that a client of the host does not use, which takes a quarter of
the time of a warm prompt. Where a Python has no such C parts, or other ones, `json` itself is used. The results are the
same; a test compares them.
"""

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Settings:
    """What the scanner looks up: that of `json.JSONDecoder()`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _fast() -> "tuple[Callable[[Any], str], Callable[[str], Any]]":
    from _json import encode_basestring, make_encoder, make_scanner

    encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, True)
    scan = make_scanner(_Settings())  # type: ignore[arg-type]  # the stub names another class

    def write(value: "Any") -> str:
        return "".join(encode(value, 0))

    def read(text: str) -> "Any":
        found, end = scan(text, 0)
        if text[end:].strip():
            raise ValueError(f"more than one value in a line: {text[end : end + 40]}")
        return found

    if read(write({"a": [1, 2.5, None, True, "é\n"]})) != {"a": [1, 2.5, None, True, "é\n"]}:
        raise ValueError("this Python has another C part of json")
    return write, read


def _slow() -> "tuple[Callable[[Any], str], Callable[[str], Any]]":
    import json

    return lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")), json.loads


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


try:
    _write, _read = _fast()
except Exception:
    _write, _read = _slow()


def write_line(value: object) -> bytes:
    """Encode a value as one line."""
    return _write(value).encode("utf-8", "surrogatepass") + b"\n"


def read_line(line: bytes) -> "Any":
    """Decode the value of one line.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return _read(line.decode("utf-8", "surrogatepass").strip())
    except StopIteration:
        raise ValueError("a line is not JSON") from None
