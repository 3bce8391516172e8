"""A real bash that runs lines in a folder of its own, and what the lines ran.

In front of the machine's programs its `PATH` has stubs: a script under many names that writes its words to a log. One
bash serves many lines, each in a subshell; every line has its own name for the file `victim`, so that what one leaves
running is not taken for the next one's. A folder `elsewhere` has programs that only have the names of known ones.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

# It needs no `PATH`, and tells its own name even if the caller gives it another.
STUB = """#!/bin/sh
{ printf '%s\\0' "${0##*/}" "$@"; printf '\\n\\0'; } >> LOG
"""
SERVER = """while IFS= read -r -d '' line; do
  ( eval "$line"; wait ) </dev/null >/dev/null 2>&1 8<&- 9>&-
  printf . >&9
done <&8 8<&0
"""
MOST_SECONDS = 5.0
_FILES = {
    "words.txt": "one\ntwo\n",
    "a.c": "int main(void) { return 0; }\n",
    "src/x.py": "print(1)\n",
    ".env": "TOKEN=1\n",
    "secrets/key": "1\n",
}


class RealBash:
    """A bash for lines. `runs` returns what a line ran of the stubs."""

    def __init__(self, folder: Path, stubs: Sequence[str]) -> None:
        self.place = folder / "place"
        self.home = folder / "home"
        self.stubs = folder / "bin"
        self._log = folder / "log"
        self.elsewhere = folder / "elsewhere"
        for made in (self.place / "src", self.place / "secrets", self.home, self.stubs, self.elsewhere):
            made.mkdir(parents=True)
        for name, text in _FILES.items():
            (self.place / name).write_text(text)
        self._log.touch()
        first = self.stubs / stubs[0]
        first.write_text(STUB.replace("LOG", str(self._log)))
        first.chmod(0o755)
        for name in stubs[1:]:
            (self.stubs / name).hardlink_to(first)
        for name in ("ls", "cat", "git", "echo"):
            (self.elsewhere / name).hardlink_to(first)
        self._count = 0
        self._start()

    def _start(self) -> None:
        # Only what is named here: variables of whoever runs the tests change what git, make and shells do.
        environment = {
            "PATH": f"{self.stubs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "LC_ALL": "C",
            "TERM": "dumb",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }
        for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
            environment[name] = "x"
        lines, self._lines = os.pipe()
        self._done, done = os.pipe()
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", f"exec 8<&{lines} 9>&{done}\n{SERVER}"],
            cwd=self.place,
            env=environment,
            pass_fds=(lines, done),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(lines)
        os.close(done)

    def runs(self, line: str) -> list[tuple[str, ...]]:
        """Run a line, and return the words of each stub that it ran; the file `victim` exists when it starts."""
        self._count += 1
        name = f"victim{self._count}x"
        victim = self.place / name
        victim.touch()
        os.truncate(self._log, 0)
        os.write(self._lines, line.replace("victim", name).encode() + b"\0")
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._done, selectors.EVENT_READ)
            is_done = bool(waiting.select(MOST_SECONDS)) and os.read(self._done, 1) == b"."
        if not is_done:
            self.close()
            self._start()
        calls = [tuple(call[:-1].split("\0")) for call in self._log.read_text(errors="replace").split("\n\0")[:-1]]
        found = [tuple(word.replace(name, "victim") for word in call) for call in calls if _is_own(call, name)]
        if not victim.exists():
            # Not through the `PATH`: `env -i`, or a path to the machine's own program.
            found.append(("rm", "victim"))
        else:
            victim.unlink()
        return found

    def close(self) -> None:
        """End bash and what it still runs."""
        os.close(self._lines)
        os.close(self._done)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        finally:
            self._process.wait()

    def __enter__(self) -> RealBash:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_own(call: tuple[str, ...], name: str) -> bool:
    others = re.findall(r"victim\d+x", " ".join(call))
    return all(other == name for other in others)
