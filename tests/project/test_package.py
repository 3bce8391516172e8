"""The built package: what is in it, and that it starts in the ways users start it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dragoman._version import __version__
from dragoman.registry.catalogue import read_catalogue
from dragoman.registry.packages import pinned
from tests.project.sources import ROOT
from tools.package import (
    PackageError,
    build,
    check_sdist,
    check_wheel,
    clean_environment,
    collect_wheels,
    install,
    page_files,
    run,
)

PACKAGING = ROOT / "packaging"
ENTRY = json.loads((PACKAGING / "acp-registry/agent.json").read_text())
RUNNERS = Path(sys.executable).parent
VERSION_LINE = f"dragoman {__version__}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheels(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, and all that it needs with the extra `agent`: an index of our own."""
    folder = tmp_path_factory.mktemp("wheels")
    collect_wheels(folder, "agent")
    shutil.copy(built[0], folder)
    return folder


def test_wheel_and_sdist_hold_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    check_wheel(built[0])
    check_sdist(built[1])


@pytest.mark.parametrize(
    ("added", "removed", "message"),
    [
        ("dragoman/notes.txt", "", "not of the package"),
        ("", "dragoman/py.typed", "missing"),
        ("", "dragoman/cli/main.py", "missing"),
    ],
)
def test_a_wheel_with_too_much_or_too_little_is_refused(
    built: tuple[Path, Path], tmp_path: Path, added: str, removed: str, message: str
) -> None:
    changed = tmp_path / built[0].name
    with zipfile.ZipFile(built[0]) as before, zipfile.ZipFile(changed, "w") as after:
        for name in before.namelist():
            if name != removed:
                after.writestr(name, before.read(name))
        if added:
            after.writestr(added, "x")
    with pytest.raises(PackageError, match=message):
        check_wheel(changed)


def test_the_web_page_is_carried_if_it_was_built_and_left_out_if_not(built: tuple[Path, Path], tmp_path: Path) -> None:
    """The files of its table, in the wheel and in the sdist; a wheel that has another file is refused."""
    page = page_files()
    with zipfile.ZipFile(built[0]) as wheel, tarfile.open(built[1]) as sdist:
        carried = {name for name in wheel.namelist() if "/host/serving/page/" in name}
        in_sdist = {name.partition("/src/")[2] for name in sdist.getnames() if "/host/serving/page/" in name}
    assert carried == in_sdist == page.keys()
    if not page:
        pytest.skip("the web page was not built here: make builds it where Node.js is installed")
    changed = tmp_path / built[0].name
    with zipfile.ZipFile(built[0]) as before, zipfile.ZipFile(changed, "w") as after:
        for name in before.namelist():
            after.writestr(name, b"other" if name.endswith(".js") else before.read(name))
    with pytest.raises(PackageError, match="others than those of its table"):
        check_wheel(changed)


def test_it_starts_in_an_empty_environment(built: tuple[Path, Path], wheels: Path, tmp_path: Path) -> None:
    program = str(install(built[0], wheels, tmp_path / "empty"))
    environment = clean_environment(tmp_path / "home")
    assert run(program, "--version", environment=environment).strip() == VERSION_LINE
    assert "The new greeting: Hello, world!" in run(program, "demo", environment=environment, cwd=tmp_path)
    python = str(tmp_path / "empty/bin/python")
    code = "import importlib.metadata as m; print(sorted(d.name for d in m.distributions()))"
    assert run(python, "-c", code, environment=environment).strip() == "['dragoman', 'msgspec']"


def runner(name: str) -> str:
    program = RUNNERS / name
    if not program.exists():
        pytest.skip(f"{name} is not installed; requirements/package.txt has it")
    return str(program)


def test_uvx_runs_the_line_of_the_registry(wheels: Path, tmp_path: Path) -> None:
    environment = clean_environment(tmp_path / "home") | {
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_CONFIG": "1",
    }
    uvx = [runner("uvx"), "--quiet"]
    assert run(*uvx, "dragoman", "--version", environment=environment).strip() == VERSION_LINE
    way = ENTRY["distribution"]["uvx"]
    # As the registry's own check starts an agent, and what it demands: at least one login method.
    asked = {"terminal": True, "_meta": {"terminal-auth": True}}
    params = {"protocolVersion": 1, "clientCapabilities": asked}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    done = subprocess.run(
        [*uvx, way["package"], *way["args"]],
        env=environment | way.get("env", {}),
        cwd=tmp_path,
        input=f"{line}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[0])["result"]
    assert answer["agentInfo"]["version"] == __version__
    assert any("terminal-auth" in (method.get("_meta") or {}) for method in answer["authMethods"])


def test_pipx_runs_the_wheel(wheels: Path, tmp_path: Path) -> None:
    environment = clean_environment(tmp_path / "home") | {
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_DEFAULT_PYTHON": sys.executable,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }
    assert VERSION_LINE in run(runner("pipx"), "run", "dragoman", "--version", environment=environment)


def test_the_registry_entry_has_the_registrys_form() -> None:
    """The form of `agent.json`: required and known members, and one way to get it at least."""
    known = {"id", "name", "version", "description", "repository", "authors", "license", "icon", "distribution"}
    assert {"id", "name", "version", "description", "distribution"} <= ENTRY.keys() <= known
    assert re.fullmatch(r"[a-z][a-z0-9-]*", ENTRY["id"])
    assert ENTRY["version"] == __version__
    assert re.match(r"\d+\.\d+\.\d+", ENTRY["version"])
    assert all(isinstance(name, str) for name in ENTRY["authors"])
    assert ENTRY["license"] == "Apache-2.0"
    ways = ENTRY["distribution"]
    assert ways.keys() <= {"binary", "npx", "uvx"}
    assert ways
    assert ways["uvx"].keys() <= {"package", "args", "env"}
    spec = pinned("uvx", ways["uvx"]["package"], "")
    assert spec.version == __version__, "the version is pinned"


def test_our_own_reader_of_the_registry_takes_the_entry() -> None:
    catalogue = read_catalogue({"version": "1.0.0", "agents": [ENTRY]}, "here", 0.0)
    assert catalogue.skipped == ()
    assert catalogue.agents["dragoman"].kinds == ("uvx",)


def test_the_icon_is_small_and_of_one_colour() -> None:
    path = PACKAGING / "acp-registry" / ENTRY["icon"]
    root = ElementTree.fromstring(path.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("16", "16", "0 0 16 16")
    colours = {
        value for element in root.iter() for name in ("fill", "stroke") if (value := element.get(name)) is not None
    }
    assert colours <= {"currentColor", "none"}
    assert "currentColor" in colours
    assert "style" not in path.read_text()


def test_the_container_file_can_be_read_and_names_what_is_here() -> None:
    """No container engine is needed here: every instruction is known, and what is copied is what make builds."""
    text = (PACKAGING / "Containerfile").read_text()
    joined = re.sub(r"\\\n\s*", " ", text)
    steps = [line.split(None, 1) for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    assert {step for step, _ in steps} <= {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENTRYPOINT", "CMD", "ENV"}
    assert next(step for step, _ in steps) == "FROM"
    assert [words for step, words in steps if step == "COPY"] == ["dist/*.whl /tmp/dist/"]
    users = [words for step, words in steps if step == "USER"]
    assert users == ["dragoman"], "not root"
    for step, words in steps:
        if step in ("ENTRYPOINT", "CMD"):
            assert all(isinstance(word, str) for word in json.loads(words))
        if step == "RUN":
            subprocess.run(["sh", "-n", "-c", words], check=True)
