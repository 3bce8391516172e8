"""Model servers on this machine: which of the usual ports answers, and which models it lists.

Owns the one request that is sent without being asked for: `GET /v1/models` to a loopback address, without a key, a
cookie, a proxy or a redirect, and no longer than `PROBE_SECONDS` for all servers together. A server elsewhere is named,
and never asked. Only the welcome loads this; a chosen server is called as every other provider is (`http.py`).
"""

from __future__ import annotations

import ipaddress
import queue
import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

from dragoman.builtin.models.list_rows import compatible_facts, rows_in
from dragoman.builtin.models.providers import COMPATIBLE, PROVIDERS, Provider

if TYPE_CHECKING:
    import http.client
    from collections.abc import Iterator, Mapping, Sequence

PROBE_SECONDS: Final = 0.3
"""For all servers together: the welcome is on the screen after it, whatever they do."""
LOCAL: Final = ("ollama", "lmstudio", "llamacpp", "vllm")
"""The providers whose servers run on the user's machine, in the order in which they are offered."""
_LARGEST_ANSWER_BYTES: Final = 1024 * 1024

ServerAnswer = Literal["models", "empty", "wants a key", "not asked"]


class FoundServer(NamedTuple):
    """A model server: one that answered, or one elsewhere that a variable names."""

    provider: Provider
    address: str
    """Host and port, without what else an address may hold, such as a password."""
    answer: ServerAnswer
    models: tuple[str, ...] = ()
    variable: str = ""
    """The variable that names the address; empty for the usual one."""


class _Place(NamedTuple):
    provider: Provider
    variable: str
    address: str
    hosts: tuple[str, ...]
    """The addresses to connect to, of this machine; none for a server elsewhere."""
    port: int
    path: str


def find_servers(env: Mapping[str, str], seconds: float = PROBE_SECONDS) -> list[FoundServer]:
    """Return the model servers that answer on this machine, and those elsewhere that a variable names.

    Blocks for at most `seconds`. A server that is slower is left out.
    """
    import http.client  # noqa: F401 - before the time counts

    places = list(_places(env))
    asked = [place for place in places if place.hosts]
    answers = _Probes(asked).run(monotonic() + seconds) if asked else {}
    found: list[FoundServer] = []
    for place in places:
        if not place.hosts:
            found.append(FoundServer(place.provider, place.address, "not asked", (), place.variable))
        elif place in answers:
            state, models = answers[place]
            found.append(FoundServer(place.provider, place.address, state, models, place.variable))
    return found


def _places(env: Mapping[str, str]) -> Iterator[_Place]:
    """Yield each server once: the usual ports, and every address that a variable names."""
    seen: set[tuple[str, int]] = set()
    named = [provider.id for provider in PROVIDERS.values() if env.get(provider.url_variable) and provider.url]
    for id in dict.fromkeys((*LOCAL, COMPATIBLE, *named)):
        provider = PROVIDERS[id]
        names = (provider.url_variable, *provider.url_variables)
        variable = next((name for name in names if env.get(name)), "")
        url = provider.base_url(env)
        place = _place(provider, variable, url) if url else None
        if place is None or (place.address, place.port) in seen:
            continue
        seen.add((place.address, place.port))
        yield place


def _place(provider: Provider, variable: str, url: str) -> _Place | None:
    """Return where an address leads; None if it is not one."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return None
    if not host or not port:
        return None
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # Encryption to this machine itself would need a certificate that is trusted: such a server is named only.
    hosts = _own_hosts(host) if parts.scheme == "http" and _is_plain(parts) and provider.form != "gemini" else ()
    version = "/v1" if provider.form == "messages" else ""
    return _Place(provider, variable, shown, hosts, port, f"{parts.path.rstrip('/')}{version}/models")


def _is_plain(parts: SplitResult) -> bool:
    """Whether an address holds nothing but a host and a path: no password, and no key in a query."""
    return not (parts.username or parts.password or parts.query or parts.fragment)


def _own_hosts(host: str) -> tuple[str, ...]:
    """Return the loopback addresses that a host stands for; a name that has to be looked up is none."""
    if host == "localhost":
        return ("127.0.0.1", "::1")
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return (host,)
    return ()


_Answer = tuple[ServerAnswer, tuple[str, ...]]


class _Probes:
    """One request to each server at once, in threads that are not waited for: a server may never answer."""

    def __init__(self, places: Sequence[_Place]) -> None:
        self._places = places
        self._answers: queue.Queue[tuple[_Place, _Answer | None]] = queue.Queue()
        self._open: dict[_Place, http.client.HTTPConnection] = {}

    def run(self, end: float) -> dict[_Place, _Answer]:
        for place in self._places:
            threading.Thread(target=self._ask, args=(place, end), daemon=True, name="dragoman-probe").start()
        found: dict[_Place, _Answer] = {}
        for _ in self._places:
            try:
                place, answer = self._answers.get(timeout=max(0.0, end - monotonic()))
            except queue.Empty:
                break
            if answer is not None:
                found[place] = answer
        for connection in list(self._open.values()):  # of those that are late: their threads end with it
            _shut(connection)
        return found

    def _ask(self, place: _Place, end: float) -> None:
        import http.client

        answer = None
        for host in place.hosts:
            connection = http.client.HTTPConnection(host, place.port, timeout=max(0.01, end - monotonic()))
            self._open[place] = connection
            try:
                answer = _answer(connection, place)
                break
            except (OSError, http.client.HTTPException, ValueError, RecursionError, msgspec.MsgspecError):
                continue  # nothing listens there, or it is not such a server
            finally:
                connection.close()
                self._open.pop(place, None)
        self._answers.put((place, answer))


def _answer(connection: http.client.HTTPConnection, place: _Place) -> _Answer | None:
    """Ask a server for its models; None if what it answers is not a list of models."""
    connection.putrequest("GET", place.path, skip_accept_encoding=True)
    connection.putheader("Accept", "application/json")
    connection.putheader("Connection", "close")
    connection.endheaders()
    response = connection.getresponse()
    if response.status in (401, 403) and place.provider.id != COMPATIBLE and not place.variable:
        # Any program may refuse strangers at one of these ports: only a named one is known to be a model server.
        return None
    if response.status in (401, 403):
        return "wants a key", ()
    if response.status != 200:
        return None
    rows = rows_in(msgspec.json.decode(response.read(_LARGEST_ANSWER_BYTES)))
    if rows is None:
        return None
    names = [facts.id for row in rows if (facts := compatible_facts(row)) is not None]
    return ("models" if names else "empty"), tuple(dict.fromkeys(names))


def _shut(connection: http.client.HTTPConnection) -> None:
    import socket

    opened = connection.sock
    if opened is not None:
        with suppress(OSError):
            opened.shutdown(socket.SHUT_RDWR)
