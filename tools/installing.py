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
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off")
_FETCHED = re.compile(
    r"(?:Downloading|Using cached|Processing) .*?([\w.]+)-[^/-]+-[^/]*\.whl(?:\.metadata)?(?: \(([\d.]+ \w+)\))?"
)
_KNOWN = re.compile(r"(?:Collecting|Requirement already satisfied:|Processing) \S+")


def pins(files: list[str]) -> set[str]:
    """Return the names of the packages that requirement files pin, in the spelling that compares."""
    lines = (line for file in files for line in Path(file).read_text().splitlines())
    return {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines if "==" in line}


class Installation:
    """One run of pip, as its lines and the folder of packages show it."""

    def __init__(self, files: list[str]) -> None:
        self.wanted = len(pins(files))
        self._folder = Path(sysconfig.get_path("purelib"))
        self._before = self._installed()
        self._lines: list[str] = []
        self._seen = 0
        self._last = ""
        self._to_write = 0
        words = [word for file in files for word in ("-r", file)]
        self._pip = subprocess.Popen(
            [*PIP, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def added(self) -> int:
        """The number of packages that this run added."""
        return self._installed() - self._before

    def wait(self, seconds: float) -> int | None:
        """Return the exit code of pip, or None if it still runs after so long."""
        try:
            code = self._pip.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join()
        return code

    def output(self) -> str:
        return "".join(self._lines)

    def progress(self) -> str:
        """Return what pip does at the moment, as a line for the user."""
        if self._to_write:
            return f"  {self.added} of {self._to_write} packages unpacked"
        return f"  {min(self._seen, self.wanted)} of {self.wanted} packages found{self._last}"

    def _read(self) -> None:
        assert self._pip.stdout is not None
        for line in self._pip.stdout:
            self._lines.append(line)
            self._seen += bool(_KNOWN.match(line))
            if fetched := _FETCHED.match(line.strip()):
                self._last = f": {fetched[1]}, {fetched[2]}" if fetched[2] else f": {fetched[1]}"
            if line.startswith("Installing collected packages"):
                self._to_write = line.count(",") + 1
            if line.startswith("WARNING"):  # pip tries again: the reason why it takes so long
                sys.stderr.write(line)

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
