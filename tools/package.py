"""Builds the wheel and the sdist and checks both: `python -m tools.package [FOLDER]`, FOLDER is `dist` by default.

Checks the contents, the metadata, an installation into an empty environment and the start of the program there. Works
without a network: what the package depends on is taken from the running environment.
"""

from __future__ import annotations

import base64
import email
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
NAME = "dragoman"
# These have to be there: without them a part fails only when it is used.
NEEDED = ("py.typed", "__main__.py", "cli/main.py", "_version.py")
# The web page is built by Node and not tracked; its table lists the files with their hashes.
PAGE = "host/serving/page"
PAGE_TARGET = f"src/{NAME}/{PAGE}/table.json"
SDIST_FOLDERS = {"src", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO", "pyproject.toml", ".gitignore"}


class PackageError(Exception):
    """A built file is not as it has to be."""


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, built into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{NAME}-*"):
        old.unlink()
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder.resolve())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackageError(f"the build failed:\n{done.stdout}{done.stderr}")
    [wheel], [sdist] = folder.glob(f"{NAME}-*.whl"), folder.glob(f"{NAME}-*.tar.gz")
    return wheel, sdist


def tracked() -> set[str]:
    """The files below `src` that belong to the package, as the version control system knows them, or as they are."""
    found = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = set(found.stdout.split()) if found.returncode == 0 else set()
    if not names:
        names = {
            str(path.relative_to(ROOT))
            for path in (ROOT / "src").rglob("*")
            if path.is_file() and "__pycache__" not in path.parts and f"{NAME}/{PAGE}/" not in path.as_posix()
        }
    return {name for name in names if (ROOT / name).exists()}


def page_files() -> dict[str, str]:
    """The hashes of the files of the web page, by their names in the package; empty where it was not built.

    Raises: PackageError: the page on the disk is not the one of its table.
    """
    folder = ROOT / "src" / NAME / PAGE
    if not (folder / "table.json").is_file():
        return {}
    table = (folder / "table.json").read_bytes()
    found = {f"{NAME}/{PAGE}/table.json": _digest(table)}
    for entry in json.loads(table)["files"].values():
        file = folder / entry["file"]
        if not file.is_file() or _digest(file.read_bytes()) != entry["sha256"]:
            raise PackageError(
                f"{file} is not the file of the table of the web page; build it again: make {PAGE_TARGET}"
            )
        found[f"{NAME}/{PAGE}/{entry['file']}"] = entry["sha256"]
    return found


def check_wheel(wheel: Path) -> None:
    """Raise: PackageError: something is missing, too much, or wrong in the metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        [about] = [name for name in names if name.endswith(".dist-info/METADATA")]
        fields = email.message_from_bytes(archive.read(about))
        points = archive.read(about.replace("METADATA", "entry_points.txt")).decode()
        page = page_files()
        odd = [name for name, digest in page.items() if name in names and _digest(archive.read(name)) != digest]
    if odd:
        raise PackageError(f"{wheel.name}: these files of the web page are others than those of its table: {odd}")
    code = {name for name in names if ".dist-info/" not in name}
    wanted = {name.removeprefix("src/") for name in tracked()}
    _compare(wheel, code, wanted | page.keys())
    for name in NEEDED:
        if f"{NAME}/{name}" not in code:
            raise PackageError(f"{wheel.name} does not have {NAME}/{name}")
    _check_fields(wheel, fields)
    if "dragoman = dragoman.cli.main:program" not in points:
        raise PackageError(f"{wheel.name} does not install the command dragoman")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _compare(file: Path, found: set[str], wanted: set[str]) -> None:
    missing, added = sorted(wanted - found), sorted(found - wanted)
    if missing or added:
        raise PackageError(f"{file.name}: missing {missing[:5]}, not of the package {added[:5]}")


def _check_fields(wheel: Path, fields: email.message.Message) -> None:
    version = wheel.name.split("-")[1]
    expected = {"Name": NAME, "Version": version, "License-Expression": "Apache-2.0", "Requires-Python": ">=3.11"}
    for name, value in expected.items():
        if value not in str(fields[name]).split(","):
            raise PackageError(f"{wheel.name}: {name} is {fields[name]!r}, not {value!r}")
    if not fields["Summary"] or "# Dragoman" not in str(fields.get_payload()):
        raise PackageError(f"{wheel.name}: the description is missing")
    base = [text for text in fields.get_all("Requires-Dist", []) if "extra ==" not in text]
    if [Requirement(text).name for text in base] != ["msgspec"]:
        raise PackageError(f"{wheel.name} needs {base}; the base install needs msgspec alone")


def check_sdist(sdist: Path) -> None:
    """Raise: PackageError: the source is not complete, or more is in it."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    page = {f"src/{name}" for name in page_files()}
    _compare(sdist, {name for name in names if name.startswith("src/")}, tracked() | page)
    odd = {name.partition("/")[0] for name in names} - SDIST_FOLDERS
    if odd:
        raise PackageError(f"{sdist.name}: not of the package: {sorted(odd)}")


def collect_wheels(folder: Path, *extras: str) -> None:
    """Write what the package depends on to `folder`, as wheels made of what is installed here."""
    folder.mkdir(parents=True, exist_ok=True)
    left, seen = [f"{NAME}[{','.join(extras)}]"], set[str]()
    while left:
        wanted = Requirement(left.pop())
        for text in metadata.requires(wanted.name) or []:
            needed = Requirement(text)
            marks = [{"extra": extra} for extra in wanted.extras or {""}]
            if needed.marker is not None and not any(map(needed.marker.evaluate, marks)):
                continue
            left += [str(needed)] if str(needed) not in seen else []
            seen.add(str(needed))
            if needed.name != NAME:
                _repack(metadata.distribution(needed.name), folder)


def _repack(found: metadata.Distribution, folder: Path) -> None:
    """One wheel of an installed distribution; scripts, which are made at the installation, are left out."""
    tag = next(line.split()[1] for line in (found.read_text("WHEEL") or "").splitlines() if line.startswith("Tag:"))
    stem = f"{found.name.replace('-', '_')}-{found.version}"
    files = [file for file in found.files or [] if ".." not in file.parts and "__pycache__" not in file.parts]
    files = [file for file in files if file.name not in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")]
    with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as archive:
        record = ""
        for file in files:
            data = Path(str(file.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{file},sha256={digest},{len(data)}\n"
            archive.writestr(str(file), data)
        about = next(file.parts[0] for file in files if file.parts[0].endswith(".dist-info"))
        archive.writestr(f"{about}/RECORD", f"{record}{about}/RECORD,,\n")


def install(wheel: Path, wheels: Path, folder: Path) -> Path:
    """The program `dragoman` of a new environment in which nothing is installed but the wheel and what it needs."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]
    run(*pip, "install", "--no-index", "--find-links", str(wheels), str(wheel))
    run(*pip, "check")
    return folder / "bin" / NAME


def run(*command: str, environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """What a command writes to both streams. Raises: PackageError: it failed."""
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackageError(f"{' '.join(command)} failed with code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def clean_environment(home: Path) -> dict[str, str]:
    """Nothing of the user's Python and settings."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR", "SSL_CERT_FILE")}
    return {**kept, "HOME": str(home), "DRAGOMAN_HOME": str(home / "dragoman"), "PYTHONDONTWRITEBYTECODE": "1"}


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    try:
        if not page_files():
            raise PackageError(f"the web page was not built; Node.js 20 builds it: make {PAGE_TARGET}")
        wheel, sdist = build(folder)
        check_wheel(wheel)
        check_sdist(sdist)
        trial = folder / ".trial"
        shutil.rmtree(trial, ignore_errors=True)
        collect_wheels(trial / "wheels")
        program = install(wheel, trial / "wheels", trial / "empty")
        environment = clean_environment(trial / "home")
        print(run(str(program), "--version", environment=environment).strip())
        run(str(program), "demo", environment=environment, cwd=trial)
        shutil.rmtree(trial)
    except PackageError as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    print(f"built and checked: {wheel}, {sdist}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
