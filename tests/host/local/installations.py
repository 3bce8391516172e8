"""Installations of dragoman next to the one under test: an environment of its own, with a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import dragoman
from tests.cli.exec_kit import Done
from tests.host.local.kit import SECONDS, HostPlaceKit

PACKAGE = Path(dragoman.__file__).parent


def _link(source: str, target: str) -> str:
    """Copies a file without its bytes where that can be done; a test that changes one makes a new file."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def copy_package(folder: Path) -> Path:
    """A copy of the package in a folder, with its compiled files: they save seconds at the first start."""
    shutil.copytree(PACKAGE, folder / "dragoman", copy_function=_link)
    return folder / "dragoman"


class Installation:
    """An environment with a copy of the package in it, or with a link to another one's."""

    def __init__(self, folder: Path, package: Path | None = None) -> None:
        self.folder = folder
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = folder / "lib" / name / "site-packages"
        site.mkdir(parents=True)
        (folder / "bin").mkdir()
        python = Path(sys.executable).resolve()
        (folder / "bin" / "python").symlink_to(python)
        (folder / "pyvenv.cfg").write_text(f"home = {python.parent}\nversion = {sys.version.split()[0]}\n")
        (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")  # what the package depends on
        if package is None:
            self.package = copy_package(site)
        else:
            self.package = site / "dragoman"
            self.package.symlink_to(package)

    def change(self, name: str, old: str, new: str) -> None:
        """Changes a file of the package as an update does: another file takes its place."""
        path = self.package / name
        text = path.read_text()
        assert old in text
        made = path.with_name(f".{path.name}.new")
        made.write_text(text.replace(old, new))
        made.replace(path)

    def words(self, *words: str) -> list[str]:
        return [str(self.folder / "bin" / "python"), "-m", "dragoman", *words]

    def run(self, place: HostPlaceKit, *words: str, verb: str = "exec") -> Done:
        """Runs a command of this installation to its end."""
        return run(place, self.words(verb, *words))


def run(place: HostPlaceKit, command: list[str], **variables: str) -> Done:
    done = subprocess.run(
        command,
        cwd=place.project,
        env={**place.environment, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)
