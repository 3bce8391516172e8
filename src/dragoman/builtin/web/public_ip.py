"""Distinguishes public addresses from those of this machine, its network, and other reserved ranges.

Owns the table. A page that the agent reads may name any address, and services on private addresses often trust every
client that can reach them. An address that embeds another one is not public either, except in the one form (NAT64) that
networks without IPv4 use for every public host.
"""

from __future__ import annotations

import ipaddress
from functools import cache
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_INSIDE: Final = (
    ("127.0.0.0/8", "this machine (loopback)"),
    ("0.0.0.0/8", "this machine"),
    ("10.0.0.0/8", "a private network"),
    ("172.16.0.0/12", "a private network"),
    ("192.168.0.0/16", "a private network"),
    ("100.64.0.0/10", "a provider's own network"),
    ("169.254.0.0/16", "link-local"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved for examples"),
    ("198.51.100.0/24", "reserved for examples"),
    ("203.0.113.0/24", "reserved for examples"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("198.18.0.0/15", "reserved for measurements"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::1/128", "this machine (loopback)"),
    ("::/128", "this machine"),
    ("::ffff:0:0/96", "an embedded IPv4 address"),
    ("::ffff:0:0:0/96", "an embedded IPv4 address"),
    ("::/96", "an embedded IPv4 address"),
    ("64:ff9b:1::/48", "an embedded IPv4 address (NAT64)"),
    ("2002::/16", "an embedded IPv4 address (6to4)"),
    ("2001::/32", "an embedded IPv4 address (Teredo)"),
    ("2001::/23", "reserved"),
    ("2001:db8::/32", "reserved for examples"),
    ("3fff::/20", "reserved for examples"),
    ("fc00::/7", "a private network (unique local)"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "a private network (site-local)"),
    ("ff00::/8", "multicast"),
)
_NAT64: Final = "64:ff9b::/96"
_PUBLIC_IPV6: Final = "2000::/3"
_OWN_NAMES: Final = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def inside(text: str) -> str | None:
    """Return a description of an address that is not public, None for a public one."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "not an address"
    if isinstance(address, ipaddress.IPv6Address) and address in _network(_NAT64):
        # In a network without IPv4, DNS64 gives every public host such an address.
        within = inside(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
        return None if within is None else f"{within}, by NAT64"
    for network, description in _INSIDE:
        if address in _network(network):
            return description
    if address.version == 6 and address not in _network(_PUBLIC_IPV6):
        return "reserved"
    return None if address.is_global else "not public"


def inside_by_name(host: str) -> str | None:
    """Do the same for a host by its name alone; None also means that it would have to be looked up."""
    if host in _OWN_NAMES or host.endswith(".localhost"):
        return "this machine"
    literal = literal_address(host)
    return None if literal is None else inside(literal)


def literal_address(host: str) -> str | None:
    """Return the address if the host is one, None if it is a name."""
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return None


@cache
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(text)
