"""The page of the local host, until Ctrl-C: opened, attached to again when the host is replaced, and its codes."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.exits import OK, TERMINATED, CliError
from dragoman.cli.serve.tokens import read_duration
from dragoman.host.local.build import PROTOCOL
from dragoman.host.local.place import find_places
from dragoman.host.local.start import NoHost, find_host, reach_host
from dragoman.host.local.thin import HostLost, HostRefused, begin, begun
from dragoman.host.local.web_page import CLOSED, USER, WebChoice, read_web_file, web_folder, write_web_file
from dragoman.host.serving.pairing import CODE_SECONDS, NewDevice, PairingCodes
from dragoman.host.serving.tokens import RIGHTS, HostTokens

if TYPE_CHECKING:
    from types import FrameType

    from dragoman.host.local.thin import ThinClient

_SEE_HELP: Final = "see dragoman web --help"
_NOT_OPEN: Final = "the web page is not open"
_TRIES: Final = 5


def open_page(given: Any) -> int:
    """Open the page and stay until Ctrl-C, or not at all with `--detach`.

    Raises:
        CliError, ConfigError: something about the command line is wrong, or a package is missing.
    """
    import dragoman.transports.remote  # noqa: F401 - says which packages are missing, before a host is started

    device, choice = _new_device(given), _choice(given)
    client, facts = _open(choice, is_kept=given.detach)
    if facts.get("page") is None:
        client.close()
        _undo(facts)
        raise _without_page(facts)
    _introduce(given, facts, _issue(device))
    if given.detach:
        client.close()
        return OK
    return _Foreground(choice).stay(client, facts)


def pair(given: Any) -> int:
    """Print another code for the page that is open."""
    facts = _status()
    if not facts["isOpen"]:
        raise CliError(_NOT_OPEN, hint="dragoman web opens it, and prints a code")
    _introduce(given, facts, _issue(_new_device(given)))
    return OK


def show_status(given: Any) -> int:
    """Print whether the page is open, where, and which browsers are paired."""
    facts = _status()
    tokens = HostTokens(web_folder() / "tokens.json")
    paired = [token for token in tokens.all() if not tokens.is_expired(token)]
    if given.json:
        devices = [
            {
                "id": token.name,
                "name": token.title,
                "rights": list(token.rights),
                "seenAt": tokens.seen_at(token),
                "expiresAt": token.expires_at,
            }
            for token in paired
        ]
        write_json({**facts, "devices": devices})
        return OK
    if facts["isOpen"]:
        stays = "until it is stopped" if facts["isKept"] else "while dragoman web runs"
        write_note(f"the web page is open at {facts['address']}, {stays}; {facts['connections']} connected")
    else:
        write_note(f"{_NOT_OPEN}; dragoman web opens it")
    if facts.get("isOpen") and facts.get("page") is None:
        write_note(_without_page(facts).message)
    if paired:
        rows = [(token.name, token.title, ",".join(token.rights), _day(tokens.seen_at(token))) for token in paired]
        write_table(("DEVICE", "NAME", "RIGHTS", "LAST USED"), rows)
        write_note(f"remove one with: dragoman serve token revoke DEVICE --data {web_folder()}")
    return OK


def stop(given: Any) -> int:
    """Close the page; sessions go on."""
    client = find_host(find_places())
    facts: dict[str, Any] = {"isOpen": False}
    if client is not None:
        facts = _call(client, "status")
        _call(client, "stop")
        client.close()
    file = read_web_file()
    was_kept = file.kept is not None
    if was_kept:  # no host runs that could have done it
        write_web_file(msgspec.structs.replace(file, kept=None))
    if given.json:
        write_json({"isOpen": False, "wasOpen": facts["isOpen"]})
    elif facts["isOpen"] or was_kept:
        write_note("the web page is closed; sessions and turns go on")
    else:
        write_note(_NOT_OPEN)
    return OK


class _Foreground:
    """The program that holds the page while a user has it in a terminal."""

    def __init__(self, choice: WebChoice | None) -> None:
        self._choice = choice

    def stay(self, client: ThinClient, facts: dict[str, Any]) -> int:
        """Wait for the end: Ctrl-C, `web stop`, or a host that cannot be had again."""
        signal.signal(signal.SIGTERM, _terminated)
        try:
            while True:
                if self._is_closed(client):
                    write_note("the web page was closed by dragoman web stop")
                    return OK
                # The host ended: it was updated, or killed. The next one opens the page at the same port.
                client, again = _open(self._choice or WebChoice(port=int(facts["port"])), is_kept=False)
                write_note(f"the host was replaced; the page is open again at {again['address']}")
        except KeyboardInterrupt:
            write_note("the web page is closed; sessions and turns go on")
            return OK
        except _Terminated:
            return TERMINATED
        finally:
            client.close()

    @staticmethod
    def _is_closed(client: ThinClient) -> bool:
        """Wait; False if the connection to the host is lost."""
        client.set_timeout(None)
        try:
            while client.read().get("method") != CLOSED:
                pass
        except HostLost:
            client.close()
            return False
        return True


class _Terminated(Exception):
    """SIGTERM came."""


def _terminated(number: int, frame: FrameType | None) -> None:
    raise _Terminated


# The host


def _open(choice: WebChoice | None, *, is_kept: bool) -> tuple[ThinClient, dict[str, Any]]:
    """Connect to the host, which is started if none runs, and let it open the page."""
    for tries_left in reversed(range(_TRIES)):
        try:
            client = _reach()
            wanted = None if choice is None else msgspec.to_builtins(choice)
            return client, _call(client, "open", choice=wanted, isKept=is_kept)
        except NoHost as error:
            raise CliError(str(error), hint="dragoman sessions --host shows the host of this user") from None
        except HostLost as error:  # it ended just now
            if tries_left == 0:
                raise CliError(f"the host could not be reached: {error}") from None
            time.sleep(0.1)
    raise AssertionError


def _reach() -> ThinClient:
    client = reach_host(find_places(), note=write_note)
    hello = begun(client, begin(client))
    if hello.get("isOutdated") or hello.get("protocol") != PROTOCOL:
        from dragoman.host.local.succession import left_in, retire, wait_for_end

        client, work = retire(client, write_note)
        if work:
            write_note(f"dragoman was updated; the page waits for {left_in(work)}")
            client = wait_for_end(client, work, None)
    return client


def _call(client: ThinClient, do: str, **params: object) -> dict[str, Any]:
    try:
        found: dict[str, Any] = client.call("_dragoman/web", do=do, **params)
    except HostRefused as error:
        client.close()
        if error.code == -32601:
            raise CliError(
                "the host that runs is of an earlier version, and has no web page",
                hint="it is replaced when its turns have ended; try again then",
            ) from None
        raise CliError(str(error), hint=_SEE_HELP) from None
    return found


def _status() -> dict[str, Any]:
    client = find_host(find_places())
    if client is None:
        return {"isOpen": False, "isKept": read_web_file().kept is not None, "folder": str(web_folder())}
    try:
        return _call(client, "status")
    finally:
        client.close()


def _undo(facts: dict[str, Any]) -> None:
    """Close a page that has no files, if only this program wanted it."""
    if facts["programs"] <= 1:
        client = find_host(find_places())
        if client is not None:
            _call(client, "stop")
            client.close()


def _without_page(facts: dict[str, Any]) -> CliError:
    if facts.get("problems"):
        return CliError(str(facts["problems"][0]), hint="install dragoman again")
    return CliError(
        "this installation of dragoman has no web page: the package was built without Node.js",
        hint="install a released wheel; in a clone, make run builds the page with Node.js 20 (see docs/web.md)",
    )


# What the command line says


def _choice(given: Any) -> WebChoice | None:
    """Return where the page is to be; None for where it is, or was."""
    if bool(given.tls_cert) != bool(given.tls_key):
        raise CliError("--tls-cert and --tls-key belong together", hint=_SEE_HELP)
    if given.tls_cert and given.behind_proxy:
        raise CliError("--behind-proxy is for a proxy that speaks TLS; leave it out with --tls-cert", hint=_SEE_HELP)
    if given.behind_proxy and not given.host:
        raise CliError("--behind-proxy needs the name of the proxy", hint="add --host workbench.example")
    port = _port(given.port)
    if not any((port, given.listen, given.host, given.tls_cert, given.behind_proxy)):
        return None
    return WebChoice(
        port=port,
        listen=(given.listen or WebChoice().listen).removeprefix("[").removesuffix("]"),
        hosts=tuple(given.host),
        tls_cert=None if given.tls_cert is None else str(Path(given.tls_cert).absolute()),
        tls_key=None if given.tls_key is None else str(Path(given.tls_key).absolute()),
        is_behind_proxy=given.behind_proxy,
    )


def _port(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise CliError(f"--port {text}: not a port", hint="a port is a number from 1 to 65535")
    return int(text)


def _new_device(given: Any) -> NewDevice:
    rights = tuple(dict.fromkeys(given.right)) or RIGHTS
    if "view" not in rights:
        raise CliError("a browser without the right view could not show anything", hint="add --right view")
    ends = None if given.expires is None else time.time() + read_duration(given.expires)
    return NewDevice(USER, rights, None, ends)


# What is shown


def _issue(device: NewDevice) -> str:
    return PairingCodes(web_folder() / "codes.json").issue(device)


def _introduce(given: Any, facts: dict[str, Any], code: str) -> None:
    address = f"{facts['address']}/"
    if given.json:
        write_json({"address": address, "code": code, "url": f"{address}#{code}", "seconds": CODE_SECONDS})
        sys.stdout.flush()  # it may stay in the foreground
        return
    sys.stdout.write(f"{address}#{code}\n")
    sys.stdout.flush()
    is_terminal = sys.stdout.isatty() and sys.stderr.isatty()
    if facts["isReachable"] and is_terminal:
        from dragoman.text.qr import qr_lines

        sys.stderr.write("".join(f"{line}\n" for line in qr_lines(f"{address}#{code}")))
    write_note(f"the code {code} pairs one browser within {CODE_SECONDS // 60} minutes; another: dragoman web pair")
    if not facts["isReachable"]:
        _name_ways(facts)
    if given.action is None and not given.detach:
        write_note("Ctrl-C closes the page; sessions and turns go on")
    if given.action is None and is_terminal and not given.no_open and _has_display():
        import webbrowser

        # Without the code: other users of this machine can read the command line of a browser.
        webbrowser.open(address)


def _name_ways(facts: dict[str, Any]) -> None:
    port = facts["port"]
    name = os.uname().nodename
    write_note("only this machine can reach it; from a phone or another computer (docs/web.md):")
    write_note(f"  ssh -L {port}:127.0.0.1:{port} {name}, then open the address above there")
    write_note(f"  an HTTPS proxy of a private network: dragoman web --behind-proxy --host {name}.example")
    write_note(f"  a certificate: dragoman web --listen 0.0.0.0 --host {name}.example --tls-cert FILE --tls-key FILE")


def _has_display() -> bool:
    if os.environ.get("SSH_CONNECTION") and not os.environ.get("DISPLAY"):
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _day(moment: float | None) -> str:
    return "never" if moment is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
