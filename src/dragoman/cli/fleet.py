"""What `dragoman fleet` asks a host, and how the answers look. Loaded when the command runs."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.connect import Remote, check_url, find_way_in
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.exits import OK, CliError
from dragoman.cli.times import ago
from dragoman.errors import METHOD_NOT_FOUND, ConfigError, ConnectionClosed, DragomanError, RequestError
from dragoman.host.quotas import LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_PAGE: Final = 100
_ADMIN: Final = (
    "make a token for it on the machine of the host: dragoman serve token add operator --right view --right admin"
)
_UNITS: Final = ("B", "KB", "MB", "GB", "TB")


def run_fleet(given: Any, where: str) -> int:
    """Do what the command line says, at the host with this URL.

    Raises:
        CliError: an option is wrong, the host cannot be reached, or refuses.
    """
    url = check_url(where)
    token, login = find_way_in(url, given.token_env, given.token_file, given.ca)
    asked, shown = _ACTIONS[given.action]
    answer = asyncio.run(_ask(Remote(url, token, (), given.ca, login), lambda ask: asked(ask, given)))
    if given.json:
        write_json(answer)
    else:
        shown(answer)
    return OK


async def _ask(remote: Remote, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    from dragoman.client import connect
    from dragoman.host.bridge.reasons import explain

    try:
        transport = await remote.open()
    except ConfigError:
        raise
    except (DragomanError, OSError) as error:
        sentence = explain(error, remote.url).sentence
        code = exits.AUTH_REQUIRED if "(401)" in sentence or "dragoman login" in sentence else exits.AGENT_DIED
        raise CliError(sentence, exit_code=code) from None
    try:
        async with connect(transport, name="dragoman fleet", meta={"dragoman": {}}) as host:

            async def ask(method: str, **params: object) -> Any:
                return await host.request(f"_dragoman/fleet/{method}", params)

            return await work(ask)
    except RequestError as error:
        raise _refused(error, remote.url) from None
    except ConnectionClosed as error:
        raise CliError(explain(error, remote.url).sentence, exit_code=exits.AGENT_DIED) from None


def _refused(error: RequestError, url: str) -> CliError:
    reason = error.data.get("reason") if isinstance(error.data, dict) else None
    if reason == "forbidden":
        return CliError(f"this token may not run the host at {url}", hint=_ADMIN, exit_code=exits.AGENT_ERROR)
    if error.code == METHOD_NOT_FOUND:
        text = f"{url} is not a host of dragoman serve, or one of an earlier version"
        return CliError(text, hint="update it there", exit_code=exits.AGENT_ERROR)
    return CliError(error.message, exit_code=exits.AGENT_ERROR)


# Asking


async def _hosts(ask: Any, given: Any) -> Any:
    return (await ask("hosts"))["hosts"]


async def _sessions(ask: Any, given: Any) -> Any:
    params: dict[str, Any] = {"limit": _PAGE} | ({} if given.user is None else {"user": given.user})
    found: list[Any] = []
    while True:
        page = await ask("sessions", **params)
        found += page["sessions"]
        if page.get("nextCursor") is None:
            return found
        if not given.all:
            write_note(f"these are the last {_PAGE}; --all lists every session")
            return found
        params["cursor"] = page["nextCursor"]


async def _show(ask: Any, given: Any) -> Any:
    return (await ask("show", sessionId=given.name))["session"]


async def _end(ask: Any, given: Any) -> Any:
    return await ask("end", sessionId=given.name)


async def _users(ask: Any, given: Any) -> Any:
    return (await ask("users"))["users"]


async def _quota(ask: Any, given: Any) -> Any:
    values = dict(_read_limit(text) for text in given.limits)
    params: dict[str, Any] = {"user": given.name} | ({"set": values} if values else {})
    return await ask("quota", **params, **({"reset": True} if given.reset else {}))


def _read_limit(text: str) -> tuple[str, float | str | None]:
    """Read `turns=4`, `turns=none` or `turns=default`. Raises: CliError."""
    name, separator, value = text.partition("=")
    if name not in LIMITS or not separator:
        raise CliError(f"{text!r} is not a limit", hint=f"write it like turns=4; the limits are {', '.join(LIMITS)}")
    if value in ("none", "default"):
        return name, None if value == "none" else value
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e18:
        raise CliError(f"{text}: not a number of 0 or more", hint="a number, none for no limit, or default")
    return name, int(number) if number.is_integer() else number


# Showing


def _show_hosts(hosts: Any) -> None:
    header = ("HOST", "STATE", "VERSION", "AGENTS", "TURNS", "WAITING", "CLIENTS", "SESSIONS", "STORED", "STARTED")
    rows = [
        (
            host["host"],
            host["state"],
            host["version"],
            f"{host['agentsRunning']} of {_number(host['agentsMost'])}",
            str(host["turns"]),
            str(host["startsWaiting"]),
            str(host["connections"]),
            str(host["sessions"]),
            _size(host["storedBytes"]),
            _ago(host["startedAt"]),
        )
        for host in hosts
    ]
    write_table(header, rows)


def _show_sessions(sessions: Any) -> None:
    header = ("SESSION", "USER", "STATE", "AGENT", "UPDATED", "TURNS", "STORED", "COST", "FOLDER")
    rows = [
        (
            row["sessionId"],
            row["user"],
            row["state"],
            row["agent"],
            _ago(row["updatedAt"]),
            str(row["turns"]),
            _size(row["bytes"]),
            _cost(row["cost"]),
            row["cwd"],
        )
        for row in sessions
    ]
    write_table(header, rows)
    if not sessions:
        write_note("there are no such sessions")


def _show_session(row: Any) -> None:
    times = ("createdAt", "updatedAt", "turnStartedAt")
    shown: dict[str, str] = {}
    for name, value in row.items():
        if value is None or value == []:
            continue
        if name in times:
            shown[name] = _ago(value)
        elif name == "bytes":
            shown[name] = _size(value)
        elif name == "cost":
            shown[name] = _cost(value)
        elif name == "lastTurn":
            shown[name] = "failed" if value["isError"] else str(value["stopReason"])
        elif isinstance(value, dict):
            shown[name] = ", ".join(f"{key} {part}" for key, part in value.items())
        elif isinstance(value, list):
            shown[name] = ", ".join(map(str, value))
        else:
            shown[name] = str(value).lower() if isinstance(value, bool) else str(value)
    write_table(("WHAT", "VALUE"), list(shown.items()))


def _show_end(answer: Any) -> None:
    write_note(f"{answer['sessionId']} of {answer['user']} was {answer['was']}; its turn and its agent have ended")


def _show_users(users: Any) -> None:
    header = ("USER", "SESSIONS", "AGENTS", "TURNS", "PROMPTS/H", "STORED", "COST TODAY", "CLIENTS", "LIMITS")
    rows = [
        (
            row["user"],
            str(row["sessions"]),
            str(row["agents"]),
            str(row["turns"]),
            str(row["promptsLastHour"]),
            _size(row["storedBytes"]),
            ", ".join(f"{amount:g} {currency}".strip() for currency, amount in row["costToday"].items()) or "-",
            str(row["connections"]),
            "own" if row["hasOwnLimits"] else "default",
        )
        for row in users
    ]
    write_table(header, rows)
    if not users:
        write_note("no user has a session")


def _show_quota(answer: Any) -> None:
    rows = [
        (
            limit["name"],
            _limit(limit["name"], limit["used"]),
            _limit(limit["name"], limit["value"]),
            "own" if limit["isOwn"] else "default",
        )
        for limit in answer["limits"]
    ]
    write_table(("LIMIT", "USED", "VALUE", "FROM"), rows)


def _limit(name: str, value: float | None) -> str:
    return _size(int(value)) if name == "stored_bytes" and value is not None else _number(value)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _size(count: int) -> str:
    size = float(count)
    for unit in _UNITS:
        if size < 1000 or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def _cost(cost: Any) -> str:
    return f"{cost['amount']:.2f} {cost['currency']}".strip() if isinstance(cost, dict) else "-"


def _ago(milliseconds: int) -> str:
    return ago(datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(), time.time())


_ACTIONS: Final[dict[str, tuple[Callable[[Any, Any], Coroutine[Any, Any, Any]], Callable[[Any], None]]]] = {
    "hosts": (_hosts, _show_hosts),
    "sessions": (_sessions, _show_sessions),
    "show": (_show, _show_session),
    "end": (_end, _show_end),
    "users": (_users, _show_users),
    "quota": (_quota, _show_quota),
}
