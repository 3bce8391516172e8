"""How every test runs: coroutines under `asyncio.run` with a bound, and nothing may be left running afterwards."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from dragoman.text import secrets
from tests import machine, warm_programs
from tests.cli.warm_python import WarmPython
from tests.trace.browser import Browser, browser

IS_SOAK = os.environ.get("DRAGOMAN_SOAK") == "1"  # make soak: long faults and the whole matrix, which take minutes
# On a busy machine an example of a property test may take a second; that says nothing about the code. A defect that 40
# examples miss in every run is for the 400 of make soak.
settings.register_profile(
    "busy machine",
    deadline=None,
    max_examples=400 if IS_SOAK else 40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("busy machine")
if not IS_SOAK:
    # Hypothesis would read the source of every module for constants to try: five seconds in every worker of a new
    # checkout. There are thousands, so that 40 examples as good as never try the one that would matter.
    providers._get_local_constants = lambda: providers._local_constants

# A shell starts what it puts in the background with SIGINT ignored, and children inherit that: then no test could
# show that Ctrl-C works.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same with `nohup` and the end of a terminal.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# pytest imports readline, which sets these for child processes behind the back of `os.environ`. A width that no test
# asked for would cut what commands print.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)
    os.unsetenv(_name)

ALONE = "alone"  # the mark of tests that compare durations, and the expression that selects them
TEST_SECONDS = 90.0  # a bound for what hangs; on two loaded cores some tests need a tenth of it
SOAK_SECONDS = 900.0
# What a finished test has already asked to end (a cancelled task, a reaped child) may take a moment to do so.
ENDING_SECONDS = 10.0
REPORTED_SECONDS = 8.0
THREADS = "/proc/self/task"
TESTS = Path(__file__).parent
_HAS_BEGUN = Event()


def pytest_configure(config: pytest.Config) -> None:
    """Lets a worker use what the process that started it found out about the machine."""
    if hasattr(config, "workerinput"):
        machine.use(config.workerinput["machine"])


def pytest_sessionstart(session: pytest.Session) -> None:
    """Says every few seconds that the tests are still being collected: 18,000 of them take a while."""
    if hasattr(session.config, "workerinput"):
        return
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    started = time.monotonic()

    def report() -> None:
        while reporter is not None and not _HAS_BEGUN.wait(REPORTED_SECONDS):
            reporter.write_line(f"collecting tests since {time.monotonic() - started:.0f} s")

    Thread(target=report, daemon=True).start()


def pytest_runtest_logstart() -> None:
    """Notes that the first test begins: from here on pytest shows how far it is."""
    _HAS_BEGUN.set()


def pytest_sessionfinish() -> None:
    """Ends the programs that waited for tests."""
    _HAS_BEGUN.set()
    warm_programs.close_all()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Passes what was found out about the machine to a worker of pytest-xdist."""
    node.workerinput["machine"] = machine.answers()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m alone`, passes over files without such a test: to import them all takes longer than those tests."""
    if config.getoption("markexpr") != ALONE or collection_path.suffix != ".py":
        return None
    return None if f"pytest.mark.{ALONE}" in collection_path.read_text() else True


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keeps the collector away from the modules and items of 18,000 tests, which live as long as the process.

    To look at them again in each full collection takes a third of a second, in every worker.
    """
    gc.disable()
    try:
        if [Path(word).absolute() for word in session.config.args] == [TESTS]:
            _import_in_turn()
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _import_in_turn() -> None:
    """Imports the tests, in each worker from another place on: then none compiles what another has just compiled.

    In a new checkout every worker would otherwise compile every file, at the same time as the others.
    """
    count, name = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    files = sorted(TESTS.rglob("test_*.py")) if count > 1 else []
    first = len(files) * int(name.removeprefix("gw")) // count
    for path in files[first:] + files[:first]:
        try:
            import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))
        except (Exception, pytest.skip.Exception):  # pytest imports it again, and reports what is wrong with it
            continue


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests of `make soak` everywhere else, whatever other expression selects tests."""
    long = [item for item in items if item.get_closest_marker("soak") is not None]
    if IS_SOAK:
        for item in long:
            item.add_marker(pytest.mark.timeout(SOAK_SECONDS))
    elif long:
        config.hook.pytest_deselected(items=long)
        left_out = set(long)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def test_*`; fixtures are passed as they are."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    seconds = SOAK_SECONDS if pyfuncitem.get_closest_marker("soak") is not None else TEST_SECONDS
    asyncio.run(_bounded(test, arguments, seconds), debug=False)
    return True


async def _bounded(test: Callable[..., Awaitable[None]], arguments: dict[str, Any], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await test(**arguments)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=ENDING_SECONDS)
    if left:
        names = ", ".join(sorted(f"{task.get_name()} ({_where(task)})" for task in left))
        pytest.fail(f"the test left {len(left)} task(s) pending: {names}", pytrace=False)


def _where(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", repr(coroutine))


@pytest.fixture(scope="session")
def warm_python() -> Iterator[WarmPython]:
    """Runs of `dragoman` to their end, in processes that start quickly."""
    with WarmPython() as found:
        yield found


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    """One browser for all pages that this process tests."""
    with browser() as made:
        yield made


@pytest.fixture(autouse=True)
def _no_keys_remembered() -> Iterator[None]:
    """Forgets the keys that a test made this process mask: text of the next test may begin like one."""
    kept = secrets._remembered[:], secrets.known_keys._masks, secrets.known_keys._masks_bytes
    yield
    secrets._remembered[:], secrets.known_keys._masks, secrets.known_keys._masks_bytes = kept


@pytest.fixture(autouse=True)
def _no_children_left() -> Iterator[None]:
    """Fails a test that leaves a child process of this one behind, running or unreaped."""
    before = _children()
    yield
    left = _children() - before - warm_programs.waiting_pids()
    deadline = time.monotonic() + ENDING_SECONDS
    while left and time.monotonic() < deadline:
        time.sleep(0.01)  # a child that is already ending raises no event here
        left = _children() - before - warm_programs.waiting_pids()
    if left:
        pytest.fail(
            f"the test left child process(es) behind: {', '.join(sorted(map(_described, left)))}", pytrace=False
        )


def _children() -> set[int]:
    """Children of every thread of this process; empty where the kernel does not tell."""
    pids: set[int] = set()
    for thread in os.listdir(THREADS) if os.path.isdir(THREADS) else ():
        try:
            with open(f"{THREADS}/{thread}/children", "rb") as listing:
                pids.update(map(int, listing.read().split()))
        except OSError:  # the thread ended between the listing and the read
            continue
    return pids


def _described(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        command = ""
    return f"{pid} ({command or 'a zombie'})"
