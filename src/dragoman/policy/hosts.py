"""One spelling for each host, so that a rule about `127.0.0.1` also covers `0x7f.1`.

Owns which spellings browsers and resolvers treat as the same host: letters of any script, numbers in any base, short
and long IPv6 addresses. Makes no lookups: two names of one machine are two hosts.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"(?!.{254})[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")


def plain_host(host: str) -> str:
    """Return the host in lower-case ASCII: a name, an IPv4 address, or an IPv6 address in brackets.

    Raises: ValueError with the rest of a sentence that starts with the host.
    """
    if host.startswith("["):
        return _plain_ipv6(host)
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            raise ValueError("is not the name of a host") from None
    host = host.lower().removesuffix(".")
    if _NAME.fullmatch(host) is None:
        raise ValueError("is not the name of a host")
    # Resolvers take every host whose last part is a number for an IPv4 address.
    return _plain_ipv4(host) if _NUMBER.fullmatch(host.rpartition(".")[2]) else host


def _plain_ipv6(host: str) -> str:
    import ipaddress

    try:
        address = ipaddress.IPv6Address(host[1:-1] if host.endswith("]") else "")
    except ValueError:
        raise ValueError("is not an IPv6 address") from None
    if address.scope_id is not None:
        raise ValueError("names a network interface; remove the part after %")
    return f"[{address.compressed}]"


def _plain_ipv4(host: str) -> str:
    parts = [_number(part) for part in host.split(".")]
    *first, last = parts
    if len(parts) > 4 or any(part > 255 for part in first) or last >= 256 ** (5 - len(parts)):
        raise ValueError("is not an IPv4 address")
    value = last + sum(part << 8 * (3 - place) for place, part in enumerate(first))
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def _number(text: str) -> int:
    if len(text) > 16 or _NUMBER.fullmatch(text) is None:
        raise ValueError("is not an IPv4 address")
    try:
        if text.startswith("0x"):
            return int(text[2:] or "0", 16)
        return int(text, 8 if text.startswith("0") else 10)
    except ValueError:
        raise ValueError("is not an IPv4 address") from None
