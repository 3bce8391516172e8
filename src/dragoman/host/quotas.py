"""What each user of a host may use, and what each uses now.

Theory of operation
-------------------
A user is counted over all connections, tokens and devices. What can be counted where it is (turns, sessions that are
being opened, agents) is counted there, so that nothing has to be given back. Every check and the step that it permits
are one step of the loop: requests that come at the same time cannot pass together.

*Turns* are the sessions of a user in which a prompt runs or waits, and those whose agent ignored a cancel. *Agents* are
the processes, until they have ended (`AgentPlaces`). *Stored bytes* are measured once, with the first connection of a
user, and then counted as events are committed; after a deletion they are measured again. *Cost* is the growth of what
agents report for their sessions, by day in UTC; a session that is deleted takes nothing of it back. Cost and prompts
are kept in `usage.json`, so that a restart forgives nothing.

A turn in which the cost or the bytes come to their limit is cancelled with a notice. The other limits refuse before
anything begins. Values of single users are in `quotas.json`, which is read again when it changes.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from dragoman.errors import ConfigError, RequestError
from dragoman.host.agent_places import AgentPlaces
from dragoman.host.working.uploads import UploadRefused
from dragoman.workspace.private import make_private_folder, open_private, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession

_log = logging.getLogger("dragoman.host")
_DAY_SECONDS: Final = 86400
_MINUTE_SECONDS: Final = 60
_HOUR_MINUTES: Final = 60
_SAVE_SECONDS: Final = 1.0


class Quota(msgspec.Struct, frozen=True):
    """How much one user may use; None for no limit. The names are those of `serve --limit`."""

    sessions: int | None = None
    agents: int | None = None
    """Processes at once."""
    turns: int | None = None
    """At once, over all sessions."""
    prompts_per_hour: int | None = None
    stored_bytes: int | None = None
    """Of the log and of attachments."""
    cost_per_day: float | None = None
    """As agents report it, in each currency; a day begins at midnight UTC."""


LIMITS: Final = Quota.__struct_fields__
_REMEDIES: Final = {
    "sessions": "delete some",
    "agents": "close a session whose agent is not needed",
    "turns": "wait until one has ended, or cancel one",
    "prompts_per_hour": "wait",
    "stored_bytes": "delete sessions that are not needed",
    "cost_per_day": "wait for midnight UTC",
}
_WHOLE: Final = frozenset(name for name in LIMITS if name != "cost_per_day")


class Meter(msgspec.Struct):
    """What one user has used."""

    day: int = 0
    """Of `cost`, in days since 1970."""
    cost: dict[str, float] = {}
    """Of the day, by currency."""
    prompts: dict[int, int] = {}
    """Accepted prompts of the last hour, by minute since 1970."""
    stored_bytes: int = 0
    """In the log; not in the file, because the log says it."""
    most_stored: float = float("inf")
    is_loaded: bool = False


class _Kept(msgspec.Struct):
    """What a restart must not forgive."""

    day: int = 0
    cost: dict[str, float] = {}
    prompts: dict[int, int] = {}


class _UsageFile(msgspec.Struct):
    version: int = 1
    users: dict[str, _Kept] = {}


class _QuotaFile(msgspec.Struct):
    version: int = 1
    users: dict[str, dict[str, float | None]] = {}


class Quotas:
    """The limits of a host's users."""

    def __init__(self, host: Host, default: Quota, *, most_agents: int | None = None) -> None:
        """Prepare them; a host has them from here on.

        Args:
            host: Whose users.
            default: For every user without values of its own.
            most_agents: How many agents the host runs at once; None for no limit.
        """
        self.default = default
        self.places = AgentPlaces(host, self, most_agents)
        self.started_at = host.now()
        self._host = host
        folder = host.log.folder
        self._file: Path | None = None if folder is None else folder / "quotas.json"
        self._usage: Path | None = None if folder is None else folder / "usage.json"
        self._seen: tuple[int, int, int] | None = None
        self._own: dict[str, dict[str, float | None]] = {}
        self._meters: dict[str, Meter] = self._read_usage()
        self._saver: asyncio.TimerHandle | None = None
        self._loading = asyncio.Lock()
        self._has_uploads = False
        host.uploads.admit = self.admit_upload
        host.quotas = self

    async def load(self, user: str) -> None:
        """Measure what a user keeps, once. Raises: StoreError."""
        if self.meter(user).is_loaded:
            return
        async with self._loading:  # two connections at the same time wait for one measurement
            if not self._has_uploads:
                await self._host.uploads.measure()
                self._has_uploads = True
            if not self.meter(user).is_loaded:
                await self.measure(user)

    async def measure(self, user: str) -> None:
        """Measure what a user keeps in the log. Raises: StoreError."""
        meter = self.meter(user)
        before = meter.stored_bytes
        found = (await self._host.log.stored(user)).get(user)
        # What was committed meanwhile may be in both: rather too much than too little.
        meter.stored_bytes = (0 if found is None else found.size_bytes) + meter.stored_bytes - before
        meter.is_loaded = True

    def meter(self, user: str) -> Meter:
        """Return what a user has used; the one object that is counted in."""
        found = self._meters.get(user)
        if found is None:
            found = self._meters[user] = Meter(cost={}, prompts={})
        return found

    # Limits

    def of(self, user: str) -> Quota:
        """Return the limits of a user, as the file has them now."""
        self._refresh()
        own: Any = self._own.get(user)
        return replace(self.default, **own) if own else self.default

    def own_names(self, user: str) -> frozenset[str]:
        """Return which limits a user has values of its own for."""
        self._refresh()
        return frozenset(self._own.get(user, ()))

    def change(self, user: str, values: Mapping[str, object], *, resets: bool = False) -> None:
        """Give a user limits of its own.

        Args:
            user: Who.
            values: By name; None for no limit, `"default"` for that of the host.
            resets: Whether the user first loses all values of its own.

        Raises:
            ConfigError: a name or a value is wrong, or the file cannot be written.
        """
        checked = {name: read_limit(name, value) for name, value in values.items()}
        with self._changing() as own:
            mine = {} if resets else own.get(user, {})
            for name, value in checked.items():
                if value == "default":
                    mine.pop(name, None)
                else:
                    mine[name] = value
            own[user] = mine
            if not mine:
                del own[user]
        self.meter(user).most_stored = self._most_logged(user)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, dict[str, Any]]]:
        """Yield the values of users, and write them back. Two programs that change them wait for each other."""
        if self._file is None:
            yield self._own
            return
        make_private_folder(self._file.parent)
        lock = open_private(self._file.with_name(f"{self._file.name}.lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            own: dict[str, dict[str, Any]] = _read_quotas(self._file) if self._file.exists() else {}
            yield own
            document = msgspec.json.format(msgspec.json.encode(_QuotaFile(1, own)), indent=2)
            write_private(self._file, document, is_synced=True)
        except OSError as error:
            raise ConfigError(f"the limits of users cannot be written ({error.strerror}): {self._file}") from None
        finally:
            os.close(lock)
        self._refresh()

    def _refresh(self) -> None:
        """Read the file again if it was changed. One that cannot be read changes nothing: no limit is lifted by it."""
        if self._file is None:
            return
        try:
            facts = os.stat(self._file)
            seen = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        except FileNotFoundError:
            self._own, self._seen = {}, None
            return
        except OSError as error:
            _log.error("the limits of users cannot be read (%s): %s", error.strerror, self._file)
            return
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._own = _read_quotas(self._file)
        except ConfigError as error:
            _log.error("%s; the limits before it still hold", error)
        for user, meter in self._meters.items():
            meter.most_stored = self._most_logged(user)

    # Counting

    def sessions_of(self, user: str) -> list[HostedSession]:
        """Return the sessions of a user that are in memory."""
        return [session for session in self._host.live_sessions() if session.record.principal == user]

    def turns_of(self, user: str) -> int:
        """Return how many turns of a user run or are about to; an agent that ignored a cancel may still be in one."""
        return sum(session.prompts.is_busy or session.agent.is_stuck for session in self.sessions_of(user))

    def bytes_of(self, user: str) -> int:
        """Return what a user keeps, in the log and as attachments, with prompts that are about to be logged."""
        coming = sum(
            item.size_bytes for session in self.sessions_of(user) for item in session.prompts.waiting if not item.number
        )
        return self.meter(user).stored_bytes + self._host.uploads.kept_bytes(user) + coming

    def cost_of(self, user: str) -> dict[str, float]:
        """Return what the day has cost so far, by currency."""
        meter, today = self.meter(user), self._today()
        if meter.day != today:
            meter.day, meter.cost = today, {}
        return meter.cost

    def prompts_of(self, user: str) -> int:
        """Return how many prompts a user sent within the last hour."""
        meter, minute = self.meter(user), int(self._host.now() // _MINUTE_SECONDS)
        meter.prompts = {at: count for at, count in meter.prompts.items() if at > minute - _HOUR_MINUTES}
        return sum(meter.prompts.values())

    def used(self, user: str) -> dict[str, float]:
        """Return what a user uses of each limit but `sessions`, which the log counts."""
        return {
            "agents": self.places.count(user),
            "turns": self.turns_of(user),
            "prompts_per_hour": self.prompts_of(user),
            "stored_bytes": self.bytes_of(user),
            "cost_per_day": round(max(self.cost_of(user).values(), default=0.0), 6),
        }

    def users(self) -> list[str]:
        """Return the users that have used something since midnight, or have limits of their own."""
        self._refresh()
        return sorted({*self._meters, *self._own})

    # Admission: each raises RequestError, and counts in the same step

    def admit_prompt(self, session: HostedSession, size: int) -> None:
        """Refuse a prompt that passes a limit of its user, or count it."""
        user = session.record.principal
        quota = self.of(user)
        self.require_spending(user, size)
        is_another_turn = not session.prompts.is_busy and not session.agent.is_stuck
        turns = self.turns_of(user)
        if quota.turns is not None and is_another_turn and turns >= quota.turns:
            for other in self.sessions_of(user):
                if other.agent.is_stuck and not other.prompts.is_busy:  # so that the next one has room
                    _ = self._host.run(other.agent.end())
            raise refusal(user, "turns", quota.turns, turns)
        self.count_prompt(user)

    def count_prompt(self, user: str) -> None:
        """Count a prompt, or text for the turn that runs. Raises: RequestError if there were too many in an hour."""
        most, sent = self.of(user).prompts_per_hour, self.prompts_of(user)
        meter, now = self.meter(user), self._host.now()
        if most is not None and sent >= most:
            oldest = min(meter.prompts, default=0)
            seconds = max(1, int((oldest + _HOUR_MINUTES) * _MINUTE_SECONDS - now))
            raise refusal(user, "prompts_per_hour", most, sent, retry_seconds=seconds)
        minute = int(now // _MINUTE_SECONDS)
        meter.prompts[minute] = meter.prompts.get(minute, 0) + 1
        self._save_later()

    def require_spending(self, user: str, size: int = 0) -> None:
        """Refuse what would cost or store something, if the user may do neither any more."""
        quota = self.of(user)
        self.meter(user).most_stored = self._most_logged(user, quota)
        spent = round(max(self.cost_of(user).values(), default=0.0), 6)
        if quota.cost_per_day is not None and spent >= quota.cost_per_day:
            raise refusal(user, "cost_per_day", quota.cost_per_day, spent, retry_seconds=self._seconds_of_day())
        if quota.stored_bytes is not None:
            kept = self.bytes_of(user)
            if kept + max(size, 1) > quota.stored_bytes:
                raise refusal(user, "stored_bytes", quota.stored_bytes, kept)

    async def admit_upload(self, user: str, size: int) -> None:
        """Refuse an attachment that does not fit. Raises: UploadRefused, StoreError."""
        await self.load(user)
        most, kept = self.of(user).stored_bytes, self.bytes_of(user)
        if most is not None and kept + size > most:
            raise UploadRefused(f"{refusal(user, 'stored_bytes', most, kept).message}.", is_full=True)

    # What happens

    def note_cost(self, session: HostedSession, before: object) -> None:
        """Count what a session has cost since its last report, and end the user's turns if it was too much.

        Args:
            session: Whose report came.
            before: What it had reported before, `amount` and `currency`.
        """
        user, found = session.record.principal, session.facts.get("cost")
        if not isinstance(found, dict):
            return
        amount, currency = float(found["amount"]), str(found["currency"])
        earlier = 0.0
        if isinstance(before, dict) and before.get("currency") == currency:
            earlier = float(before["amount"])
        # An agent that was started again may count from nothing.
        grown = amount - earlier if amount >= earlier else amount
        if not 0 < grown < float("inf"):
            return
        cost, quota = self.cost_of(user), self.of(user)
        cost[currency] = cost.get(currency, 0.0) + grown
        self._save_later()
        if quota.cost_per_day is not None and cost[currency] >= quota.cost_per_day:
            self._stop(user, refusal(user, "cost_per_day", quota.cost_per_day, round(cost[currency], 6)))

    def note_full(self, session: HostedSession) -> None:
        """End the turns of a user whose events have come to the limit, unless there is more room by now."""
        user = session.record.principal
        most, kept = self.of(user).stored_bytes, self.bytes_of(user)
        self.meter(user).most_stored = self._most_logged(user)
        if most is None or kept <= most:
            return
        self._stop(user, refusal(user, "stored_bytes", most, kept))
        if not session.prompts.is_busy and session.agent.is_running:  # it goes on by itself, or ignored a cancel
            _ = self._host.run(session.agent.end())

    def _stop(self, user: str, why: RequestError) -> None:
        for session in self.sessions_of(user):
            running = session.prompts.running
            if running is not None and not running.is_cancelled:
                session.notice(f"The turn was cancelled: {why.message}.", "limit")
                session.cancel_prompt(running.id)

    def turn_ended(self) -> None:
        """Take note that an agent may be idle now."""
        self.places.look()

    def close(self) -> None:
        """Write down what was used."""
        if self._saver is not None:
            self._saver.cancel()
        self._save()

    # Inside

    def _most_logged(self, user: str, quota: Quota | None = None) -> float:
        most = (quota or self._quota_as_read(user)).stored_bytes
        return float("inf") if most is None else most - self._host.uploads.kept_bytes(user)

    def _quota_as_read(self, user: str) -> Quota:
        own: Any = self._own.get(user)
        return replace(self.default, **own) if own else self.default

    def _today(self) -> int:
        return int(self._host.now() // _DAY_SECONDS)

    def _seconds_of_day(self) -> int:
        return max(1, int((self._today() + 1) * _DAY_SECONDS - self._host.now()))

    def _save_later(self) -> None:
        """Write what was used within a second: a host that is killed forgets no more than that."""
        if self._saver is None and self._usage is not None:
            self._saver = asyncio.get_running_loop().call_later(_SAVE_SECONDS, self._save)

    def _save(self) -> None:
        self._saver = None
        if self._usage is None:
            return
        today, minute = self._today(), int(self._host.now() // _MINUTE_SECONDS) - _HOUR_MINUTES
        users = {
            user: _Kept(meter.day, meter.cost, meter.prompts)
            for user, meter in self._meters.items()
            if (meter.day == today and meter.cost) or any(at > minute for at in meter.prompts)
        }
        try:
            write_private(self._usage, msgspec.json.encode(_UsageFile(1, users)), is_synced=False)
        except OSError as error:
            _log.error("what users have used cannot be written (%s): %s", error.strerror, self._usage)

    def _read_usage(self) -> dict[str, Meter]:
        with suppress(FileNotFoundError):
            if self._usage is not None:
                try:
                    with os.fdopen(open_private(self._usage, os.O_RDONLY), "rb") as file:
                        found = msgspec.json.decode(file.read(), type=_UsageFile)
                except msgspec.MsgspecError as error:
                    _log.error("what users have used cannot be read (%s): %s", error, self._usage)
                    return {}
                return {
                    user: Meter(kept.day, dict(kept.cost), dict(kept.prompts)) for user, kept in found.users.items()
                }
        return {}


def refusal(user: str, limit: str, value: float, used: float, *, retry_seconds: int | None = None) -> RequestError:
    """Return the error for what a limit refuses: which limit, its value, and what to do."""
    data: dict[str, Any] = {"reason": "limit", "limit": limit, "value": value, "used": used}
    if retry_seconds is not None:
        data["retrySeconds"] = retry_seconds
    message = (
        f"{user} has come to the limit {limit} of this host ({used:g} of {value:g}): {_REMEDIES[limit]}, or ask its "
        "administrator to raise it"
    )
    return RequestError(-32603, message, data)


def read_limit(name: str, value: object) -> float | str | None:
    """Return the value of a limit: a number, None for no limit, or `default`.

    Raises:
        ConfigError: there is no such limit, or it cannot have this value.
    """
    if name not in LIMITS:
        raise ConfigError(f"{name!r} is not a limit of users; they are {', '.join(LIMITS)}")
    if value is None:
        return None
    if value == "default":
        return "default"
    kind = "a whole number" if name in _WHOLE else "a number"
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e18:
        raise ConfigError(f"{name} must be {kind} of 0 or more, null for no limit, or default; not {value!r}")
    if name in _WHOLE and value != int(value):
        raise ConfigError(f"{name} must be {kind}, not {value!r}")
    return int(value) if name in _WHOLE else float(value)


def _read_quotas(path: Path) -> dict[str, dict[str, Any]]:
    try:
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            found = msgspec.json.decode(file.read(), type=_QuotaFile)
    except OSError as error:
        raise ConfigError(f"the limits of users cannot be read ({error.strerror}): {path}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"the limits of users are broken ({error}): {path}; repair or remove the file") from None
    for user, values in found.users.items():
        for name, value in values.items():
            if read_limit(name, value) == "default":
                raise ConfigError(f"{path}: leave out {name} of {user} for the default")
    return found.users


def default_agents() -> int:
    """Return how many agents a host of this machine runs at once: by memory, 250 MB for each, and by processors."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:  # no limit, or no cgroups
            memory = min(memory, int(file.read()))
    return max(4, min(memory * 3 // 4 // (250 * 1000 * 1000), 64 * (os.cpu_count() or 1)))
