"""The Python or Node.js that an agent needs: which of those on this machine fits, and what to install if none does.

Looks at the PATH first, under every usual name (`node`, `node22`, `python3.12`), then in the folders of version
managers (nvm, fnm, volta, mise, asdf, n, pyenv, uv, Homebrew), whose versions are in the names of their folders. Only
programs on the PATH are asked for their version. Does not install anything.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cache
from glob import escape, glob
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.registry.versions import fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from dragoman.registry.known import WellKnownAgent

_ASK_SECONDS: Final = 10.0
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_STATED: Final = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?")
# Below the folder that a variable names, or the home. `*` stands for a version.
_NODES: Final = (
    ("NVM_DIR", ".nvm", "versions/node/v*/bin/node"),
    ("FNM_DIR", ".local/share/fnm", "node-versions/v*/installation/bin/node"),
    ("", ".fnm", "node-versions/v*/installation/bin/node"),
    ("VOLTA_HOME", ".volta", "tools/image/node/*/bin/node"),
    ("MISE_DATA_DIR", ".local/share/mise", "installs/node/*/bin/node"),
    ("ASDF_DATA_DIR", ".asdf", "installs/nodejs/*/bin/node"),
    ("N_PREFIX", "n", "n/versions/node/*/bin/node"),
)
_PYTHONS: Final = (
    ("PYENV_ROOT", ".pyenv", "versions/*/bin/python"),
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", "cpython-*/bin/python3"),
    ("MISE_DATA_DIR", ".local/share/mise", "installs/python/*/bin/python"),
    ("ASDF_DATA_DIR", ".asdf", "installs/python/*/bin/python"),
)
# Formulas that Homebrew does not link, so that they are on no PATH.
_BREWED: Final = ("/opt/homebrew/opt", "/home/linuxbrew/.linuxbrew/opt", "/usr/local/opt")
_TOOLS: Final = (".local/bin", ".cargo/bin")


class Runtime(NamedTuple):
    """A Python or Node.js of this machine."""

    program: str
    version: str

    @property
    def folder(self) -> str:
        """Where its other programs are, such as npm."""
        return os.path.dirname(self.program)


def find_node(wanted: str, environment: Mapping[str, str]) -> Runtime | None:
    """Return the Node.js to use for a range of versions: the first one on the PATH that fits, else the newest one.

    One in the folder of a version manager counts if npm is next to it. Where npm or npx is on the PATH and no Node.js
    that states its version, they are used as they are: the program of the result is empty.
    """
    found = _chosen(
        (node for node in _nodes_on_path(environment) if not wanted or fits(node.version, wanted) is not False),
        (node for node in _managed(_NODES, "node@*/bin/node", environment) if fits(node.version, wanted or "*")),
        "npm",
    )
    path = environment.get("PATH", os.defpath)
    is_unknown = found is None and next(_nodes_on_path(environment), None) is None
    has_npm = any(shutil.which(name, path=path) for name in ("npm", "npx"))
    return Runtime("", "") if is_unknown and has_npm else found


def find_python(wanted: str, environment: Mapping[str, str]) -> Runtime | None:
    """Return the Python to use for a version such as `3.12`: that one on the PATH or elsewhere, else a newer one."""
    here = [*_pythons_on_path(wanted, environment), *_managed(_PYTHONS, "python@*/bin/python3", environment)]
    same = [python for python in here if _minor(python.version) == _minor(wanted)]
    newer = [python for python in here if (_minor(wanted) or (0, 0)) < (_minor(python.version) or (0, 0)) < (4, 0)]
    return same[0] if same else min(newer, key=lambda found: _numbers(found.version), default=None)


def find_uv(environment: Mapping[str, str]) -> str | None:
    """Return the path of uv, which brings the Python that a package needs; None if it is not here."""
    found = shutil.which("uv", path=environment.get("PATH", os.defpath))
    home = environment.get("HOME") or os.path.expanduser("~")
    places = (os.path.join(home, folder, "uv") for folder in _TOOLS)
    return found or next((place for place in places if os.access(place, os.X_OK)), None)


def missing_runtime(agent: WellKnownAgent, environment: Mapping[str, str] | None = None) -> str:
    """Return what has to be installed before a well-known agent can be; "" if its Node.js or Python is here."""
    env = os.environ if environment is None else environment
    if agent.npm:
        if any(find_node(package.node, env) for package in agent.npm):
            return ""
        return need_of_node(agent.npm[-1].node, env)
    python = agent.python_package
    if python is None or find_uv(env) is not None or find_python(python.python, env) is not None:
        return ""
    return need_of_python(python.python, env)


def need_of_node(wanted: str, environment: Mapping[str, str]) -> str:
    """Return which Node.js is needed, which one was found instead, and how to install it."""
    numbers = re.findall(r"\d+", wanted)
    major = numbers[0] if numbers else "22"
    here = [*_nodes_on_path(environment), *_managed(_NODES, "node@*/bin/node", environment)]
    home = environment.get("HOME") or os.path.expanduser("~")
    nvm = environment.get("NVM_DIR") or os.path.join(home, ".nvm")
    ways = {
        "fnm": f"fnm install {major}",
        "volta": f"volta install node@{major}",
        "mise": f"mise use -g node@{major}",
        "brew": f"brew install node@{major}",
    }
    how = f"nvm install {major}" if os.path.isfile(os.path.join(nvm, "nvm.sh")) else _first_way(ways, environment)
    return _need(f"Node.js {major} or newer, with npm", here, how or "the installer from the site of Node.js")


def need_of_python(wanted: str, environment: Mapping[str, str]) -> str:
    """Return which Python is needed, which ones were found instead, and how to install it."""
    here = [*_pythons_on_path(wanted, environment), *_managed(_PYTHONS, "python@*/bin/python3", environment)]
    ways = {
        "pyenv": f"pyenv install {wanted}",
        "mise": f"mise use -g python@{wanted}",
        "brew": f"brew install python@{wanted}",
        "apt-get": f"sudo apt-get install python{wanted} python{wanted}-venv",
        "dnf": f"sudo dnf install python{wanted}",
        "pip": "pip install uv, which brings the right Python",
    }
    return _need(f"Python {wanted}", here, _first_way(ways, environment) or "uv, which brings the right Python")


def _need(what: str, here: list[Runtime], how: str) -> str:
    newest = max(here, key=lambda found: _numbers(found.version), default=None)
    found = f"found {newest.version} at {newest.program}" if newest is not None else "none was found"
    return f"needs {what}; {found}; install it with: {how}"


def _first_way(ways: Mapping[str, str], environment: Mapping[str, str]) -> str:
    path = environment.get("PATH", os.defpath)
    return next((way for program, way in ways.items() if shutil.which(program, path=path)), "")


def path_with(runtime: Runtime, environment: Mapping[str, str], shims: Path) -> str:
    """Return a PATH on which scripts that begin with `env node` find this Node.js.

    Args:
        shims: where a folder is made for a program of another name, such as `node22`.
    """
    path, folder = environment.get("PATH", os.defpath), runtime.folder
    if not runtime.program:
        return path
    if os.path.basename(runtime.program) != "node":
        place = shims / f"node-{runtime.version}"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark = os.path.basename(runtime.program).removeprefix("nodejs").removeprefix("node")
        for name in ("node", "npm", "npx"):
            target = shutil.which(f"{name}{mark}", path=folder)
            if target is not None and not (place / name).is_symlink():
                (place / name).symlink_to(target)
        folder = str(place)
    return path if _node_of(path) == runtime.program else f"{folder}{os.pathsep}{path}"


def _node_of(path: str) -> str | None:
    return shutil.which("node", path=path)


def _chosen(on_path: Iterable[Runtime], elsewhere: Iterable[Runtime], companion: str) -> Runtime | None:
    first = next(iter(on_path), None)
    if first is not None:
        return first
    complete = (found for found in elsewhere if os.access(os.path.join(found.folder, companion), os.X_OK))
    return max(complete, key=lambda found: _numbers(found.version), default=None)


def _nodes_on_path(environment: Mapping[str, str]) -> Iterator[Runtime]:
    path = environment.get("PATH", os.defpath)
    if not any(shutil.which(name, path=path) for name in ("npm", "npx")):
        return  # nothing could be installed with it
    names = ("node", "nodejs", *(f"node{dash}{major}" for major in range(30, 17, -1) for dash in ("", "-")))
    yield from _asked(names, path, r"v(\d+\.\d+\.\d+)")


def _pythons_on_path(wanted: str, environment: Mapping[str, str]) -> Iterator[Runtime]:
    path = environment.get("PATH", os.defpath)
    names = (f"python{wanted}", "python3", "python", *(f"python3.{minor}" for minor in range(10, 16)))
    yield from _asked(dict.fromkeys(names), path, r"Python (\d+\.\d+\.\d+)")


def _asked(names: Iterable[str], path: str, pattern: str) -> Iterator[Runtime]:
    for name in names:
        program = shutil.which(name, path=path)
        answer = re.match(pattern, _version_of(program)) if program is not None else None
        if program is not None and answer is not None:
            yield Runtime(program, answer[1])


@cache
def _version_of(program: str) -> str:
    """Return what a program prints for `--version`; empty if it cannot be run, as a shim without a version."""
    from subprocess import DEVNULL, SubprocessError, run

    try:
        done = run([program, "--version"], stdin=DEVNULL, capture_output=True, timeout=_ASK_SECONDS, check=False)
    except (OSError, SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""


def _managed(places: Iterable[tuple[str, str, str]], brewed: str, environment: Mapping[str, str]) -> Iterator[Runtime]:
    """Yield the runtimes in the folders of version managers, with the versions that the folders state."""
    home = environment.get("HOME") or os.path.expanduser("~")
    patterns = [
        os.path.join(escape(environment.get(variable) or os.path.join(home, folder)), pattern)
        for variable, folder, pattern in places
    ]
    for pattern in (*patterns, *(os.path.join(folder, brewed) for folder in _BREWED)):
        for program in sorted(glob(pattern)):
            stated = _STATED.match(program[len(pattern.partition("*")[0]) :])
            if stated is not None and os.access(program, os.X_OK):
                yield Runtime(program, ".".join(number or "0" for number in stated.groups()))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _minor(version: str) -> tuple[int, int] | None:
    found = _VERSION.match(version)
    return None if found is None else (int(found[1]), int(found[2]))
