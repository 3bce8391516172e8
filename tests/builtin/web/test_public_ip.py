"""Which addresses are public."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.web.fetch import inside, inside_by_name, literal_address

INSIDE = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "0.0.0.0": "this machine",
    "10.1.2.3": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "100.64.0.1": "provider",
    "169.254.169.254": "link-local",
    "192.0.0.8": "reserved",
    "192.0.2.1": "examples",
    "198.51.100.1": "examples",
    "203.0.113.1": "examples",
    "198.18.0.1": "measurements",
    "192.88.99.1": "6to4",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "this machine",
    "::1": "loopback",
    "::7f00:1": "embedded",
    "::ffff:127.0.0.1": "embedded",
    "::ffff:8.8.8.8": "embedded",
    "::ffff:0:8.8.8.8": "embedded",
    "64:ff9b::127.0.0.1": "NAT64",
    "64:ff9b::10.0.0.1": "NAT64",
    "64:ff9b::169.254.169.254": "NAT64",
    "64:ff9b:1::8.8.8.8": "NAT64",
    "2002:7f00:1::": "6to4",
    "2002:808:808::": "6to4",
    "2001:0:4136:e378::": "Teredo",
    "2001:2::1": "reserved",
    "2001:db8::1": "examples",
    "3fff::1": "examples",
    "fc00::1": "unique local",
    "fd12:3456:789a::1": "unique local",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "100::1": "reserved",
    "4000::1": "reserved",
    "5f00::1": "reserved",
    "": "not an address",
    "example.org": "not an address",
}
PUBLIC = (
    *("8.8.8.8", "93.184.216.34", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1"),
    *("169.253.1.1", "223.255.255.255", "128.0.0.1", "11.0.0.1"),
    *("2606:2800:220:1:248:1893:25c8:1946", "2a00:1450:4001::1", "2400:cb00::1", "64:ff9b::8.8.8.8"),
)


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_that_is_not_public_is_described(address: str) -> None:
    assert INSIDE[address] in (inside(address) or "")


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_not_inside(address: str) -> None:
    assert inside(address) is None


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    is_special = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    if is_special or address.is_reserved or address.is_unspecified:
        assert inside(str(address)) is not None or str(address).startswith("64:ff9b::")


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "10.0.0.1", "[::1]", "[::ffff:7f00:1]"])
def test_a_host_that_is_inside_by_its_spelling_needs_no_lookup(host: str) -> None:
    assert inside_by_name(host) is not None


@pytest.mark.parametrize("host", ["example.org", "localhost.example.org", "8.8.8.8", "[2606:2800:220:1::1]"])
def test_other_hosts_are_looked_up_first(host: str) -> None:
    assert inside_by_name(host) is None


def test_only_addresses_are_taken_for_addresses() -> None:
    assert literal_address("[::1]") == "::1"
    assert literal_address("1.2.3.4") == "1.2.3.4"
    assert literal_address("example.org") is None
