"""The environment of a client, which is that of the agents started for it: how it travels, and what of it matters.

The host's own environment is that of the program that happened to start it. So a client on this machine sends its own
once per connection, whole: of a list of names, a key would travel and the address that it belongs to would not. It is
sent only after the host has shown that it runs on this machine, because a socket can be forwarded from another one. It
is kept in memory, by the connection and by the sessions that the client uses, and written into no log or recording.
"""

import gc
import os

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping

METHOD = "_dragoman/environment"
"""The notification that carries it, as `block`."""
NOT_PASSED_ON = (
    "the host that runs is of an earlier version, and works: it would start agents with a part of your environment, "
    "a key without the address that it is for; it ends when its turns have ended (dragoman sessions lists them)"
)
"""Why no session is opened in a host that does not know `METHOD`; such a one shows no mark of its machine."""
_BOOT = "/proc/sys/kernel/random/boot_id"
# Ends of names, in capitals: variables that decide which provider is called, through what, and who pays.
_KEYS = ("_KEY", "_TOKEN", "_SECRET", "_CREDENTIALS")
_ADDRESSES = ("_URL", "_API_BASE", "_BASE", "_ENDPOINT", "_API_HOST")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
# Of a desktop or an editor: another one in each window, and not about providers.
_WINDOWS = ("XDG_", "VSCODE_", "GNOME_", "KDE_", "DBUS_", "SSH_")


def machine_mark() -> str:
    """Return what differs between two running machines. A host elsewhere cannot know that of this one."""
    from binascii import crc32

    try:
        with open(_BOOT, encoding="ascii") as file:
            found = file.read().strip()
    except OSError:
        found = ""
    return f"{crc32(os.fsencode(found or os.uname().nodename)):08x}"


def block_for(hello: object) -> str:
    """Return the environment of this program for a host on this machine; empty for any other.

    Args:
        hello: `_meta.dragoman` of the capabilities in the host's answer to `initialize`.
    """
    if not isinstance(hello, dict) or hello.get("machine") != machine_mark():
        return ""
    from binascii import b2a_base64

    # Values have any bytes but 0, and need not be text.
    lines = map(b"%b=%b".__mod__, os.environb.items())
    return b2a_base64(b"\0".join(lines), newline=False).decode("ascii")


def read_block(block: object) -> "dict[str, str] | None":
    """Return the environment that `block_for` wrote; None for anything else."""
    from binascii import Error, a2b_base64

    if not isinstance(block, str):
        return None
    try:
        lines = a2b_base64(block, strict_mode=True).split(b"\0")
    except (Error, ValueError):
        return None
    pairs = (line.partition(b"=") for line in lines)
    return {os.fsdecode(name): os.fsdecode(value) for name, equals, value in pairs if name and equals}


def read_members(found: object) -> "dict[str, str] | None":
    """Return an environment that a client sent as an object, as far as a program can have it; None for none."""
    if not isinstance(found, dict):
        return None
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, str) and name and "=" not in name and "\0" not in name + value
    }


def differing(started: "Mapping[str, str]", wanted: "Mapping[str, str]") -> tuple[str, ...]:
    """Return the names of keys, addresses of providers and proxies with another value in two environments, sorted.

    A client without a key or a proxy wants no other one. But without an address it means the usual one.
    """
    names = {name for name in (*started, *wanted) if started.get(name, "") != wanted.get(name, "")}
    return tuple(sorted(name for name in names if _matters(name.upper(), is_wanted=bool(wanted.get(name)))))


def _matters(name: str, *, is_wanted: bool) -> bool:
    if name.endswith(_ADDRESSES) or name == "OLLAMA_HOST":
        return not name.startswith(_WINDOWS)
    is_named = name.endswith((*_KEYS, "_PROXY")) and not name.startswith(_WINDOWS)
    return is_wanted and (is_named or name in _CERTIFICATES)


def collect_rarely() -> None:
    """Let the collector of cycles run rarely in this program, which is a host.

    A session has about 500 objects that live as long as it does. By its own settings the collector looks at new objects
    after every hundred updates, and at all of them again and again, while it finds next to nothing: what happens to an
    update makes no cycles. These numbers are 20 to 30 times its own; what a closed session leaves is a few hundred kB.
    """
    gc.set_threshold(20_000, 20, 20)
