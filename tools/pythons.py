"""Checks the generated types on every supported Python: `python -m tools.pythons`.

One annotation that is illegal on one version disables every type above it, so each version builds every decoder.
A version that is not on this machine is named and left out; the running one is always checked.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
PIN = next(line for line in (ROOT / "requirements/base.txt").read_text().splitlines() if line.startswith("msgspec=="))


def main() -> int:
    failed = False
    for version in SUPPORTED:
        interpreter = find(version)
        if interpreter is None:
            print(f"schema check on Python {version}: left out, that Python is not on this machine")
            continue
        done = subprocess.run(
            [interpreter, "-m", "tools.schema", "--check"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path_for(interpreter, version))},
            check=False,
        )
        print(f"schema check on Python {version}: {'failed' if done.returncode else 'passed'}", flush=True)
        failed |= done.returncode != 0
    return int(failed)


def find(version: str) -> str | None:
    """An interpreter of exactly this version that really runs (a shim may be there without one behind it)."""
    return next((name for name in candidates(version) if answers(name, version)), None)


def candidates(version: str) -> Iterator[str]:
    yield sys.executable
    yield f"python{version}"
    home = pwd.getpwuid(os.getuid()).pw_dir  # HOME may be unset
    for root in (os.environ.get("PYENV_ROOT"), f"{home}/.pyenv"):
        if root:
            yield from map(str, sorted(Path(root).glob(f"versions/{version}.*/bin/python"), reverse=True))


def answers(interpreter: str, version: str) -> bool:
    ask = [interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and answer.stdout.strip() == version


def path_for(interpreter: str, version: str) -> list[str]:
    """Where this interpreter finds the package and msgspec; the running one has msgspec already."""
    return ["src"] if interpreter == sys.executable else ["src", str(packages_for(version))]


def packages_for(version: str) -> Path:
    """A folder with msgspec built for this version, made once per pin."""
    folder = ROOT / ".venv" / "pythons" / f"{version}-{PIN}"
    if not folder.exists():
        staging = folder.with_name(f"{folder.name}.new-{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps"]
        where = ["--target", str(staging), "--python-version", version, "--only-binary", ":all:"]
        subprocess.run([*pip, *where, PIN], check=True)
        staging.rename(folder)
    return folder


if __name__ == "__main__":
    sys.exit(main())
