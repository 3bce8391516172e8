"""Makes the pictures of docs/images/: `python -m tools.screenshots`. A test compares them with what is committed.

Runs real commands on a real terminal of a fixed size, in a home and a project folder of their own, and draws what the
terminal then shows. What differs between two runs gets one value: the folder of the home, ids of sessions, times and
tokens. The model is scripted: no key, no network. With `--pages` also the HTML pages, photographed by Chromium; those
pictures depend on its version and on fonts, so they are not compared.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import sysconfig
import termios
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tools.screen import Screen
from tools.svg import picture

ROOT: Final = Path(__file__).parent.parent
IMAGES: Final = ROOT / "docs" / "images"
COLUMNS: Final = 100
ROWS: Final = 40
SECONDS: Final = 30.0
PAGE_WIDTH: Final = 1200
MOST_BYTES: Final = 150_000
# As long as a folder that mkdtemp makes in /tmp, so that columns have the same width under both names.
HOME: Final = "/home/charlie"
RECORDING: Final = ROOT / "tests" / "trace" / "data" / "small.jsonl"
SCRIPT: Final = r"""
think This greeting is short. I can make it friendlier.
say I will make the greeting friendlier.
edit greeting.txt Hello. => Hello, world!\nNice to meet you.
run tee welcome.txt < greeting.txt
say The new greeting is in welcome.txt.
"""
# Written without the library, which would not do this: it answers a cancelled prompt with an error, as many agents do.
WRONG_AGENT: Final = """\
import json, sys, threading

cancelled = threading.Event()

def send(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def work(id: int) -> None:
    text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Working... "}}
    send(method="session/update", params={"sessionId": "s1", "update": text})
    if cancelled.wait(20):
        send(id=id, error={"code": -32603, "message": "AbortError"})
    else:
        send(id=id, result={"stopReason": "end_turn"})

for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            about = {"name": "my-agent", "version": "1.0"}
            send(id=message["id"], result={"protocolVersion": 1, "agentInfo": about, "agentCapabilities": {}})
        case "session/new":
            send(id=message["id"], result={"sessionId": "s1"})
        case "session/prompt":
            threading.Thread(target=work, args=(message["id"],)).start()
        case "session/cancel":
            cancelled.set()
"""
TOOLS: Final = ("bash", "sh", "tee", "env")
_TAKES_TERMINAL: Final = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)


class Shot(NamedTuple):
    """One picture: its file, the command in it, and what it shows, for users who do not see it."""

    name: str
    command: str
    title: str
    keys: str = ""
    """Typed when the command asks; the picture is of the question."""
    columns: int = COLUMNS
    before: str = ""
    """A command that is run first and not shown."""
    is_steady: bool = True
    """False if parts of the output that do not depend on each other may change places."""


# In this order: later ones show the sessions of earlier ones.
SHOTS: Final = (
    Shot("help", "dragoman --help", "The commands of dragoman"),
    Shot(
        "permission",
        "dragoman exec 'Make the greeting friendlier'",
        "The user is asked for permission: the change as a diff, and the options of the agent",
        keys="\x03",
        is_steady=False,
    ),
    Shot(
        "exec",
        "dragoman exec --allow 'edit:*.txt' --allow 'execute:tee welcome.txt' 'Make it friendlier'",
        "A turn of an agent: its thoughts, tool calls with their changes, decisions, and the end of the turn",
        columns=110,
        is_steady=False,
    ),
    Shot(
        "sessions",
        "dragoman sessions list",
        "The sessions of all agents in a table",
        before="dragoman exec -a scripted 'say hello'",
    ),
    Shot("agents", "dragoman agents list", "The agents of this machine, and those that can be installed", columns=120),
    Shot(
        "check",
        "dragoman check agent --only cancel/streaming -- python my_agent.py",
        "A rule of the protocol that an agent breaks: what was expected, what was seen, and the messages",
        columns=120,
        is_steady=False,
    ),
    Shot(
        "inspect",
        "dragoman inspect session.jsonl --since 1.5 --until 3.3",
        "The messages of a recording with times and durations; broken rules are marked",
    ),
)


class Grid(NamedTuple):
    """A picture of a screen of the terminal client: the text grid that its tests compare the screen with."""

    name: str
    file: str
    title: str
    has_colours: bool = False


GRIDS: Final = (
    Grid("terminal", "conversation-80x24", "The terminal client: a question, the answer, a change and a command"),
    Grid(
        "terminal-permission", "permission-80x24", "A card asks for permission: the command, why it asks, the answers"
    ),
    Grid("terminal-pictures", "pictures-80x24", "A chart in the conversation, drawn in half blocks", has_colours=True),
    Grid("terminal-review", "review-80x24", "The review of a turn: files on the left, hunks on the right"),
    Grid("terminal-sessions", "sessions-80x24", "The list of sessions with their states, agents, age and cost"),
    Grid("terminal-wide", "columns-160x50", "At 160 columns: sessions, conversation, plan and changed files"),
)


def drawn(grid: Grid) -> Screen:
    """The screen of a text grid."""
    text = (ROOT / "tests" / "tui" / "golden" / f"{grid.file}.{'ansi' if grid.has_colours else 'txt'}").read_text()
    screen = Screen(int(grid.file.rpartition("-")[2].partition("x")[0]))
    screen.feed(text.replace("\n", "\r\n"))
    return screen


class Page(NamedTuple):
    """A picture of an HTML page that a command writes to `page.html`."""

    name: str
    command: str
    fragment: str
    height: int


PAGES: Final = (
    Page("inspect-page", "dragoman inspect session.jsonl --html page.html", "#21", 560),
    Page("session-page", "dragoman sessions export @2 -o page.html", "", 740),
)


class Place(NamedTuple):
    """A user's home with a project in it, and dragoman installed."""

    home: Path

    @property
    def project(self) -> Path:
        return self.home / "app"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": f"{self.home}/.venv/bin{os.pathsep}{self.home}/bin",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.home / "tmp"),
        }


@contextmanager
def place() -> Iterator[Place]:
    with TemporaryDirectory(prefix="", dir="/tmp") as folder:
        assert len(folder) == len(HOME), f"{folder} and {HOME} must have the same length"
        made = Place(Path(folder))
        _install(made.home)
        for each in (made.project, made.home / "tmp"):
            each.mkdir()
        (made.project / "greeting.txt").write_text("Hello.\n")
        (made.project / "my_agent.py").write_text(WRONG_AGENT)
        shutil.copy(RECORDING, made.project / "session.jsonl")
        settings = made.home / ".config" / "dragoman" / "settings.json"
        settings.parent.mkdir(parents=True)
        script = made.home / ".greeting.script"
        script.write_text(SCRIPT)
        settings.write_text(json.dumps({"model": f"scripted:{script}"}))
        yield made


def _install(home: Path) -> None:
    """An environment at a place that has the same name on every machine, with this checkout in it."""
    environment = home / ".venv"
    venv.EnvBuilder(symlinks=True).create(environment)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(environment), "platbase": str(environment)})
    Path(packages, "checkout.pth").write_text(f"{ROOT / 'src'}\n{sysconfig.get_path('purelib')}\n")
    program = environment / "bin" / "dragoman"
    program.write_text(f"#!{environment}/bin/python\nfrom dragoman.cli.main import program\nprogram()\n")
    program.chmod(0o755)
    (home / "bin").mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (home / "bin" / tool).symlink_to(found)


def take(shot: Shot, where: Place) -> Screen:
    """Run the command and return the screen after it, or at its question. Raises: AssertionError if it does not end."""
    screen = Screen(shot.columns)
    screen.feed(f"\x1b[32m$\x1b[0m \x1b[1m{shot.command}\x1b[0m\r\n")
    if shot.before:
        _output(shot._replace(command=shot.before), where)
    screen.feed(normalised(_output(shot, where), where))
    return screen


def _output(shot: Shot, where: Place) -> str:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (ROWS, shot.columns))
    program, *words = shlex.split(shot.command)
    process = subprocess.Popen(
        [sys.executable, "-ISc", _TAKES_TERMINAL, f"{where.home}/.venv/bin/{program}", *words],
        cwd=where.project,
        env=where.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        if not shot.keys:
            return _read(ours)
        asked = _read(ours, until=" > ")
        os.write(ours, shot.keys.encode())
        _read(ours)
        return asked
    finally:
        os.close(ours)
        process.kill()
        process.wait()


def _read(terminal: int, until: str = "") -> str:
    """What is written to the terminal, to its end or until it ends with these letters."""
    data, deadline = b"", time.monotonic() + SECONDS
    while not (until and data.endswith(until.encode())):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"the command did not end within {SECONDS:g} s: {data.decode(errors='replace')}"
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # no process has the other end open any more
            break
        if not piece:
            break
        data += piece
    assert not until or data.endswith(until.encode()), f"it ended without a question: {data.decode(errors='replace')}"
    return data.decode()


def normalised(text: str, where: Place) -> str:
    """The text with one value for everything that differs from run to run."""
    ids = iter(range(1, 100))
    text = text.replace(str(where.home), HOME)
    text = re.sub(r"(?<=· )\d+(?:\.\d+)?m?s(?=\r?\n)", "0.8s", text)
    text = re.sub(r"(?<=\()\d+(?:\.\d+)? s(?=\)\r?\n)", "0.8 s", text)
    text = re.sub(r"(?<=dragoman-check-)\w+", lambda found: "k3v9x2m7"[: len(found[0])], text)
    # The count has the instructions and the state of a repository in it that stand in a folder above the home.
    text = re.sub(r"\b[\d.]+k? of 200k", "640 of 200k", text)
    text = re.sub(r"\bSESSION +", "SESSION".ljust(14), text)
    return re.sub(r"\b(?:ses|sess)_\w+ +(?=just now)", lambda _: f"ses_0193a{next(ids):02}f".ljust(14), text)


def screens() -> dict[str, Screen]:
    """All pictures by their name, taken again."""
    with place() as where:
        return {shot.name: take(shot, where) for shot in SHOTS}


def photograph(page: Page, where: Place, chromium: str, file: Path) -> None:
    """Write the page, as a browser shows it. Raises: CalledProcessError, ValueError for a picture that is too large."""
    shot = Shot(page.name, page.command, page.name)
    _output(shot, where)
    written = where.project / "page.html"
    text = written.read_text().replace(str(where.home), HOME)
    text = re.sub(r"(<td>)ses_\w+", r"\1ses_0193a02f", text)
    written.write_text(re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "2026-11-15T21:00:00.000Z", text))
    # The first flags let it run as root in a container.
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
    size = (f"--window-size={PAGE_WIDTH},{page.height}", "--virtual-time-budget=5000")
    profile = f"--user-data-dir={where.home}/profile"
    command = [chromium, *flags, *size, profile, f"--screenshot={file}", written.as_uri() + page.fragment]
    subprocess.run(command, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if (size_bytes := file.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{file} has {size_bytes} bytes; make it smaller than {MOST_BYTES}")


def main(arguments: list[str]) -> int:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with_pages = "--pages" in arguments
    if with_pages and chromium is None:
        print("the pictures of pages need chromium (Debian: apt install chromium)", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with place() as where:
        for shot in SHOTS:
            (IMAGES / f"{shot.name}.svg").write_text(picture(take(shot, where), shot.title))
            print(f"docs/images/{shot.name}.svg")
        for grid in GRIDS:
            (IMAGES / f"{grid.name}.svg").write_text(picture(drawn(grid), grid.title))
            print(f"docs/images/{grid.name}.svg")
        for page in PAGES if with_pages else ():
            photograph(page, where, str(chromium), IMAGES / f"{page.name}.png")
            print(f"docs/images/{page.name}.png")
    if with_pages:
        from tools import web_pictures

        web_pictures.take(str(chromium))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
