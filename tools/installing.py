"""Installs the pins of requirement files, and says how far it is: `python -m tools.installing FILE...`.

Runs before anything is installed, so it needs nothing but the standard library and pip. On a terminal one line is
redrawn; elsewhere a line is added every few seconds. What pip says about a failure is shown whole.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

REDRAWN_SECONDS = 0.2
LINE_SECONDS = 5.0  # between two lines where nothing can be redrawn
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--progress-bar", "off")
WORTH_TWO = 10  # packages: below that a second pip takes longer to start than it saves
_FETCHED = re.compile(
    r"(?:Downloading|Using cached|Processing) .*?([\w.]+)-[^/-]+-[^/]*\.whl(?:\.metadata)?(?: \(([\d.]+ \w+)\))?"
)
_KNOWN = re.compile(r"(?:Collecting|Requirement already satisfied:|Processing) \S+")


def pins(files: list[str]) -> dict[str, list[str]]:
    """Return the lines of requirement files that pin a package, by its name in the spelling that compares."""
    found: dict[str, list[str]] = {}
    for line in (line for file in files for line in Path(file).read_text().splitlines() if "==" in line):
        lines = found.setdefault(re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower(), [])
        if line not in lines:
            lines.append(line)
    return found


class Pip:
    """One run of pip, as its lines show it. It looks for nothing that is not named: all is pinned."""

    def __init__(self, words: list[str]) -> None:
        self.seen = 0
        self.last = ""
        self.to_write = 0
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [*PIP, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait(self, seconds: float) -> int:
        """Return the exit code.

        Raises: TimeoutExpired, if it still runs after so long.
        """
        code = self._process.wait(seconds)
        self._reader.join()
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line)
            self.seen += bool(_KNOWN.match(line))
            if fetched := _FETCHED.match(line.strip()):
                self.last = f": {fetched[1]}, {fetched[2]}" if fetched[2] else f": {fetched[1]}"
            if line.startswith("Installing collected packages"):
                self.to_write = line.count(",") + 1
            if line.startswith("WARNING"):  # pip tries again: the reason why it takes so long
                sys.stderr.write(line)


class Installation:
    """All packages, in two runs of pip at the same time: one uses one core, to fetch, to unpack and to compile."""

    def __init__(self, files: list[str]) -> None:
        pinned = pins(files)
        self.wanted = len(pinned)
        self._folder = Path(sysconfig.get_path("purelib"))
        self._before = self._installed()
        lines = [pinned[name] for name in sorted(pinned)]
        parts = [lines] if self.wanted < WORTH_TWO else [lines[::2], lines[1::2]]
        self._pips = [Pip([line for of_package in part for line in of_package]) for part in parts]

    @property
    def added(self) -> int:
        """The number of packages that were added."""
        return self._installed() - self._before

    def wait(self, seconds: float) -> int | None:
        """Return the exit code of pip, the first that is not 0, or None if one still runs after so long."""
        deadline = time.monotonic() + seconds
        try:
            codes = [pip.wait(max(0.0, deadline - time.monotonic())) for pip in self._pips]
        except subprocess.TimeoutExpired:
            return None
        return next(filter(None, codes), 0)

    def output(self) -> str:
        return "".join(line for pip in self._pips for line in pip.lines)

    def progress(self) -> str:
        """Return what pip does at the moment, as a line for the user."""
        if all(pip.to_write for pip in self._pips):
            return f"  {self.added} of {sum(pip.to_write for pip in self._pips)} packages unpacked"
        last = next((pip.last for pip in self._pips if pip.last and not pip.to_write), "")
        return f"  {min(sum(pip.seen for pip in self._pips), self.wanted)} of {self.wanted} packages found{last}"

    def _installed(self) -> int:
        return len(list(self._folder.glob("*.dist-info")))


def megabytes() -> int:
    """Return the size of all files in the environment."""
    files = (path.lstat().st_size for path in Path(sys.prefix).rglob("*") if not path.is_dir())
    return round(sum(files) / 1e6)


def main() -> int:
    started = time.monotonic()
    installation = Installation(sys.argv[1:])
    is_redrawn = sys.stdout.isatty()
    print(f"installing {installation.wanted} pinned packages into {Path(sys.prefix).name}", flush=True)
    while (code := installation.wait(REDRAWN_SECONDS if is_redrawn else LINE_SECONDS)) is None:
        seconds = round(time.monotonic() - started)
        line = f"{installation.progress()} · {seconds} s"
        print(f"\r\033[K{line[:78]}" if is_redrawn else line, end="" if is_redrawn else "\n", flush=True)
    if is_redrawn:
        print("\r\033[K", end="")
    if code:
        print(installation.output(), file=sys.stderr)
        print(f"make: pip failed with code {code}; its output is above", file=sys.stderr)
        return code
    seconds = round(time.monotonic() - started)
    print(f"  {installation.added} packages added in {seconds} s; the environment has {megabytes()} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
