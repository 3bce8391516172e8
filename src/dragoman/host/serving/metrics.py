"""The numbers of a host in the text format of Prometheus. They hold numbers and short names, never texts.

`METRICS` is the table of all of them; `docs/operating.md` has a row for each. A counter or a histogram is a small
object that its user finds once and keeps: counting is an addition, and an observation one search in a dozen numbers. A
gauge is read when it is asked for. Every sample has the label `host`. Values of other labels come from fixed sets, or
are the first few that come: what a client sends never makes more of them.

What happens in sessions is counted where it is logged, see `counting_log.py`.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from bisect import bisect_left
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dragoman.rpc.transport import ClosesWithCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dragoman.host.session import HostedSession
    from dragoman.rpc import Transport
    from dragoman.rpc.transport import Receiver

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "other"
"""In the place of a name when there are too many."""
MOST_SERIES: Final = 200
"""Of one metric; what comes after them is counted as `other`."""
_SHORT: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
_LAG_SECONDS: Final = 0.25
_DISK_SECONDS: Final = 5.0


class Metric(NamedTuple):
    """A row of the table."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


METRICS: Final[Mapping[str, Metric]] = {
    "dragoman_info": Metric("gauge", "1; the version of the program is a label.", ("version",)),
    "dragoman_draining": Metric("gauge", "1 while the host takes no new prompts because it ends."),
    "dragoman_store_ok": Metric("gauge", "0 while events cannot be committed: no prompts are taken then."),
    "dragoman_audit_ok": Metric("gauge", "0 while records of who did what cannot be written."),
    "dragoman_connections_total": Metric("counter", "ACP connections that were opened."),
    "dragoman_connections": Metric("gauge", "ACP connections that are open."),
    "dragoman_sessions_total": Metric("counter", "Sessions that were made.", ("agent",)),
    "dragoman_sessions_removed_total": Metric("counter", "Sessions that were deleted, by clients or by age."),
    "dragoman_sessions": Metric("gauge", "Sessions that are in memory, by their state.", ("state",)),
    "dragoman_sessions_running": Metric("gauge", "Sessions in which a turn runs, waits, or a question is open."),
    "dragoman_prompts_total": Metric("counter", "Prompts that were accepted.", ("agent",)),
    "dragoman_prompts_waiting": Metric("gauge", "Prompts that wait for the turn before them."),
    "dragoman_turns_total": Metric("counter", "Turns that started.", ("agent",)),
    "dragoman_turns_ended_total": Metric("counter", "Turns that ended, by how.", ("agent", "outcome")),
    "dragoman_updates_total": Metric("counter", "Updates of agents.", ("agent",)),
    "dragoman_questions_total": Metric("counter", "Questions of agents to their users.", ("agent",)),
    "dragoman_questions_open": Metric("gauge", "Questions that no client has answered yet."),
    "dragoman_answers_total": Metric("counter", "Questions that were decided, by whom.", ("agent", "by")),
    "dragoman_cancels_total": Metric("counter", "Prompts that were cancelled.", ("agent",)),
    "dragoman_agents_running": Metric("gauge", "Processes of agents that serve sessions.", ("agent",)),
    "dragoman_agents_most": Metric("gauge", "How many of these processes may run at once."),
    "dragoman_agent_deaths_total": Metric("counter", "Agents that ended by themselves.", ("agent",)),
    "dragoman_commit_seconds": Metric("histogram", "From an event to its commit.", (), _SHORT),
    "dragoman_first_update_seconds": Metric(
        "histogram", "From a prompt to the first update of its turn.", ("agent",), _LONG
    ),
    "dragoman_queue_seconds": Metric("histogram", "From a prompt to the start of its turn.", ("agent",), _LONG),
    "dragoman_turn_seconds": Metric("histogram", "From the start of a turn to its end.", ("agent",), _LONG),
    "dragoman_answer_seconds": Metric("histogram", "From a question to its answer.", ("agent",), _LONG),
    "dragoman_loop_lag_seconds": Metric("histogram", "How late the event loop does what is due.", (), _SHORT),
    "dragoman_list_seconds": Metric("histogram", "From session/list to its answer.", (), _SHORT),
    "dragoman_method_seconds": Metric(
        "histogram", "From a request of a client to its answer, without prompts and lists.", ("method",), _SHORT
    ),
    "dragoman_method_errors_total": Metric("counter", "Requests of clients that got an error.", ("method",)),
    "dragoman_limit_refusals_total": Metric("counter", "Requests refused by a limit of a user.", ("limit",)),
    "dragoman_received_bytes_total": Metric("counter", "Bytes of messages from clients."),
    "dragoman_sent_bytes_total": Metric("counter", "Bytes of messages to clients."),
    "dragoman_requests_total": Metric("counter", "Requests over HTTP, upgrades included.", ("status",)),
    "dragoman_refusals_total": Metric("counter", "Requests over HTTP that were refused.", ("status",)),
    "dragoman_http_seconds": Metric("histogram", "From a request over HTTP to its answer.", ("path",), _SHORT),
    "dragoman_log_bytes": Metric("gauge", "Size of the event log on disk."),
    "dragoman_blobs": Metric("gauge", "Large bodies of events that are files."),
    "dragoman_blob_bytes": Metric("gauge", "Size of these files."),
    "dragoman_attachment_bytes": Metric("gauge", "Size of what was uploaded for prompts."),
    "dragoman_disk_free_bytes": Metric("gauge", "What the host can still write to the disk of its data."),
    "dragoman_disk_bytes": Metric("gauge", "Size of the disk of its data."),
    "process_start_time_seconds": Metric("gauge", "When the host started, in seconds since 1970."),
    "process_cpu_seconds_total": Metric("counter", "Time that the host spent on a processor."),
    "process_resident_memory_bytes": Metric("gauge", "Memory of the host, without its agents."),
    "process_open_fds": Metric("gauge", "Open files and sockets of the host."),
    "process_max_fds": Metric("gauge", "How many it may open."),
}
"""All metrics, by their names."""

_STATES: Final = ("idle", "running", "waiting", "stuck", "lost", "readOnly", "closed")
Labels = tuple[str, ...]


class Tally:
    """A number that only grows: one series of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, by: int = 1) -> None:
        self.value += by


class Histogram:
    """How often durations fell between bounds: one series of a histogram."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration; a negative one, of a clock that was set back, is none."""
        if seconds < 0:
            seconds = 0.0
        self.counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Return its samples; `labels` as Prometheus writes them."""
        total = 0
        for bound, count in zip((*map(_number, self._bounds), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {_number(self.sum)}"
        yield f"{name}_count{{{labels}}} {total}"


class HostMetrics:
    """The metrics of one host."""

    def __init__(self, host: str = "", *, agents: tuple[str, ...] = ()) -> None:
        """Begin with zero.

        Args:
            host: What the host is called; by default the name of this machine.
            agents: The agents that it runs: their series are there from the start, so that no first event is missed.
        """
        self.host = host or os.uname().nodename
        self.agents = agents
        self._tallies: dict[str, dict[Labels, Tally]] = {
            name: {} for name, row in METRICS.items() if row.kind == "counter"
        }
        self._histograms: dict[str, dict[Labels, Histogram]] = {
            name: {} for name, row in METRICS.items() if row.kind == "histogram"
        }
        self._gauges: dict[str, Callable[[], float | dict[Labels, float]]] = {}
        started = time.time()
        self.gauge("process_start_time_seconds", lambda: started)
        self.gauge("process_cpu_seconds_total", _processor_seconds)
        self.gauge("process_max_fds", lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        if os.path.isdir("/proc/self/fd"):
            self.gauge("process_open_fds", lambda: len(os.listdir("/proc/self/fd")))
            self.gauge("process_resident_memory_bytes", _resident_bytes)
        for name, row in METRICS.items():
            if not row.labels and name in self._tallies:
                self.tally(name)
            elif not row.labels and name in self._histograms:
                self.histogram(name)

    # Writing

    def tally(self, name: str, *labels: str) -> Tally:
        """Return the series of a counter, to be kept by its user; the values of its labels are in the table's order."""
        series = self._tallies[name]
        found = series.get(labels)
        if found is None:
            found = series.setdefault(_bounded(labels, len(series)), Tally())
        return found

    def count(self, name: str, by: int = 1, *labels: str) -> None:
        """Add to a counter that is not worth keeping."""
        self.tally(name, *labels).value += by

    def histogram(self, name: str, *labels: str) -> Histogram:
        """Return the series of a histogram, to be kept by its user."""
        series = self._histograms[name]
        found = series.get(labels)
        if found is None:
            found = series.setdefault(_bounded(labels, len(series)), Histogram(METRICS[name].bounds))
        return found

    def gauge(self, name: str, read: Callable[[], float | dict[Labels, float]]) -> None:
        """Add a number that is read when it is asked for; a dict has one for each set of labels."""
        assert name in METRICS, name
        self._gauges[name] = read

    # Reading

    def value(self, name: str, **labels: str) -> int:
        """Return a counter, or how often a histogram observed: the sum of the series that have these labels."""
        wanted = [(METRICS[name].labels.index(label), value) for label, value in labels.items()]
        counts = {key: tally.value for key, tally in self._tallies.get(name, {}).items()}
        counts.update({key: found.count for key, found in self._histograms.get(name, {}).items()})
        return sum(count for key, count in counts.items() if all(key[place] == value for place, value in wanted))

    def text(self) -> bytes:
        """Return everything, in the text format of Prometheus."""
        lines: list[str] = []
        for name, row in METRICS.items():
            samples = list(self._samples(name, row))
            if samples:
                lines += [f"# HELP {name} {_escaped(row.help, quote=False)}", f"# TYPE {name} {row.kind}", *samples]
        return ("\n".join(lines) + "\n").encode()

    def _samples(self, name: str, row: Metric) -> Iterator[str]:
        if row.kind == "histogram":
            for labels, histogram in sorted(self._histograms[name].items()):
                yield from histogram.lines(name, self._shown(row, labels))
        elif name in self._gauges:
            read = self._gauges[name]()
            for labels, value in sorted(read.items()) if isinstance(read, dict) else [((), read)]:
                yield f"{name}{{{self._shown(row, labels)}}} {_number(value)}"
        else:
            for labels, tally in sorted(self._tallies.get(name, {}).items()):
                yield f"{name}{{{self._shown(row, labels)}}} {tally.value}"

    def _shown(self, row: Metric, labels: Labels) -> str:
        pairs = zip(("host", *row.labels), (self.host, *labels), strict=True)
        return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)


def _bounded(labels: Labels, count: int) -> Labels:
    return labels if count < MOST_SERIES else (OTHER,) * len(labels)


def _escaped(text: str, *, quote: bool = True) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quote else text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def watch_sessions(metrics: HostMetrics, live: Callable[[], list[HostedSession]]) -> None:
    """Add the gauges of sessions and agents."""
    metrics.gauge("dragoman_sessions", lambda: _by_state(live()))
    metrics.gauge("dragoman_sessions_running", lambda: sum(session.is_busy for session in live()))
    metrics.gauge("dragoman_questions_open", lambda: sum(len(list(session.questions)) for session in live()))
    metrics.gauge("dragoman_prompts_waiting", lambda: sum(session.prompts.waiting_count for session in live()))
    seen: dict[str, float] = dict.fromkeys(metrics.agents, 0)

    def agents() -> dict[Labels, float]:
        """Count by name. A name stays once it was seen, so that its line ends at 0 and not in a gap."""
        for name in seen:
            seen[name] = 0
        for session in live():
            if session.has_agent:
                name = session.record.agent
                name = name if name in seen or len(seen) < MOST_SERIES else OTHER
                seen[name] = seen.get(name, 0) + 1
        return {(name,): count for name, count in seen.items()}

    metrics.gauge("dragoman_agents_running", agents)


def _by_state(sessions: list[HostedSession]) -> dict[Labels, float]:
    found: dict[Labels, float] = {(state,): 0 for state in _STATES}
    for session in sessions:
        state = (session.state,)
        found[state] = found.get(state, 0) + 1
    return found


class LoopLag:
    """A look at how late the event loop is, several times a second."""

    def __init__(self, metrics: HostMetrics) -> None:
        self._histogram = metrics.histogram("dragoman_loop_lag_seconds")
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + _LAG_SECONDS
        self._timer = loop.call_at(self._due, self._look)

    def _look(self) -> None:
        self._histogram.observe(asyncio.get_running_loop().time() - self._due)
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class DataSize:
    """How much a data folder holds, and how much room there is; looked at when it is asked for, and not too often."""

    def __init__(self, metrics: HostMetrics, folder: Path | None) -> None:
        self._folder = folder
        self._read_at = -_DISK_SECONDS
        self._found: dict[str, float] = {}
        for name in (
            "dragoman_log_bytes",
            "dragoman_blobs",
            "dragoman_blob_bytes",
            "dragoman_attachment_bytes",
            "dragoman_disk_free_bytes",
            "dragoman_disk_bytes",
        ):
            metrics.gauge(name, partial(self._size, name))

    def _size(self, name: str) -> dict[Labels, float]:
        return {(): self._found[name]} if name in self._found else {}

    async def look(self) -> None:
        """Read the sizes in a thread, unless that was done a moment ago."""
        if self._folder is not None and time.monotonic() - self._read_at >= _DISK_SECONDS:
            self._read_at = time.monotonic()
            self._found = await asyncio.to_thread(_data_sizes, self._folder)


def _data_sizes(folder: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    with suppress(OSError):  # a disk that cannot be looked at is shown by the store, not by its size
        log = blobs = blob_bytes = attachments = 0
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                sizes = _file_sizes(entry.path) if entry.name.endswith("-blobs") or entry.name == "attachments" else []
                if entry.name == "attachments":
                    attachments += sum(sizes)
                else:
                    blobs += len(sizes)
                    blob_bytes += sum(sizes)
            elif ".sqlite" in entry.name:
                log += entry.stat(follow_symlinks=False).st_size
        found = {
            "dragoman_log_bytes": log,
            "dragoman_blobs": blobs,
            "dragoman_blob_bytes": blob_bytes,
            "dragoman_attachment_bytes": attachments,
        }
        disk = os.statvfs(folder)
        found["dragoman_disk_free_bytes"] = disk.f_bavail * disk.f_frsize
        found["dragoman_disk_bytes"] = disk.f_blocks * disk.f_frsize
    return found


def _file_sizes(folder: str) -> list[int]:
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # it was removed at this moment
                found.append(os.lstat(os.path.join(place, name)).st_size)
    return found


class CountingTransport:
    """A transport that counts the bytes that pass through it."""

    def __init__(self, transport: Transport, metrics: HostMetrics) -> None:
        self._transport = transport
        self._sent = metrics.tally("dragoman_sent_bytes_total")
        self._received = metrics.tally("dragoman_received_bytes_total")
        self._receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._transport.start(self)

    def write(self, data: bytes) -> None:
        self._sent.value += len(data)
        self._transport.write(data)

    @property
    def unsent_bytes(self) -> int:
        return self._transport.unsent_bytes

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_close(self, code: int, reason: str) -> None:
        if isinstance(self._transport, ClosesWithCode):
            self._transport.set_close(code, reason)

    def close(self) -> None:
        self._transport.close()

    async def wait_closed(self) -> None:
        await self._transport.wait_closed()

    # Receiver

    def feed(self, data: bytes) -> None:
        self._received.value += len(data)
        assert self._receiver is not None
        self._receiver.feed(data)

    def end(self, reason: object) -> None:
        assert self._receiver is not None
        self._receiver.end(reason)  # type: ignore[arg-type]  # passed on as it came

    def drained(self) -> None:
        assert self._receiver is not None
        self._receiver.drained()
