"""A quick start: what `exec` loads and when, and shortcuts that have no lasting effect."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.exec_kit import SECONDS, Place, place
from tests.cli.step_kit import script

__all__ = ["place"]

# Notes the modules when a program is started (first that of the guard, then the agent's) and at the end.
_WATCHED = """
import json, sys
seen = []
sys.addaudithook(lambda event, values: event == "subprocess.Popen" and seen.append(sorted(sys.modules)))
from dragoman.cli.main import main
code = main()
seen.append(sorted(sys.modules))
sys.stderr.write(json.dumps([seen[-2], seen[-1]]))
sys.exit(code)
"""


def _loaded(place: Place) -> tuple[set[str], set[str]]:
    """The modules of a plain turn: when the agent's program is started, and at the end."""
    words = place.words("exec", "-q", "hi", odd=script(place, [["say", "hello"]]))
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, *words[3:]],
        cwd=place.project,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    at_start, at_end = json.loads(done.stderr.rpartition("\n")[2])
    return set(at_start), set(at_end)


def test_exec_starts_the_agent_first_and_loads_late_what_a_plain_turn_does_not_need(place: Place) -> None:
    at_start, at_end = _loaded(place)
    assert not {"asyncio", "sqlite3", "dragoman.schema", "dragoman.client", "dragoman.store"} & at_start
    rules, files = {"dragoman.policy.rule", "dragoman.policy.decide"}, {"dragoman.workspace.workspace"}
    failures = {f"dragoman.cli.exec.{name}" for name in ("error", "cause", "hints", "retry", "events")}
    failures.add("dragoman.runs.patch")
    permission = {"dragoman.client.permission", "dragoman.runs.hints", "dragoman.cli.prompt.progress"}
    assert not (rules | files | failures | permission | {"dragoman.schema.v1.rare"}) & at_end
    # A module more is a tenth of a millisecond. Fewer is fine; for more there should be a reason.
    own_at_start, own = ({name for name in each if name.startswith("dragoman")} for each in (at_start, at_end))
    assert len(own_at_start) <= 56, sorted(own_at_start)
    # 22 of them are snapshots, which are loaded and look at the folder while the agent starts.
    assert len(own) <= 178, sorted(own)
    assert len(at_start) <= 175, sorted(at_start)


def test_msgspec_is_loaded_without_its_helper_and_the_helper_can_be_had_afterwards() -> None:
    program = (
        "import sys; from dragoman.cli.startup import load_msgspec; load_msgspec(); load_msgspec()\n"
        "assert 'msgspec' in sys.modules and 'typing_extensions' not in sys.modules\n"
        "import typing_extensions, msgspec\n"
        "assert msgspec.json.decode(b'[1]', type=list[int]) == [1]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_helper_that_is_loaded_already_is_left_alone() -> None:
    program = (
        "import sys, typing_extensions as before; from dragoman.cli.startup import load_msgspec; load_msgspec()\n"
        "assert sys.modules['typing_extensions'] is before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_http_client_knows_its_version_without_importing_how_packages_are_described() -> None:
    program = (
        "import sys; from dragoman.cli.startup import shorten_version_lookups; shorten_version_lookups()\n"
        "import httpx2, httpcore2\n"
        "assert 'importlib.metadata._adapters' not in sys.modules and 'csv' not in sys.modules\n"
        "import importlib.metadata\n"
        "short = importlib.metadata\n"
        "assert short.distribution('httpx2').version == httpx2.__version__\n"
        "real = sys.modules['importlib.metadata']\n"
        "assert real is not short and importlib.metadata is real\n"
        "for name in ('httpx2', 'httpcore2', 'h11', 'msgspec', 'pytest-xdist', 'PyTest'):\n"
        "    assert short.version(name) == real.version(name), name\n"
        "assert httpcore2.__version__ == real.version('httpcore2')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_everything_else_about_packages_is_answered_as_usual(tmp_path: Path) -> None:
    # A folder that an upgrade left behind, and a package whose name goes on.
    for folder in ("twice-1.0.dist-info", "twice-2.0.dist-info", "long-name-1.0.dist-info"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: x\nVersion: {folder[-13:-10]}\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from dragoman.cli.startup import shorten_version_lookups; shorten_version_lookups()\n"
        "from importlib.metadata import PackageNotFoundError, version\n"
        "from importlib import metadata\n"
        "try:\n"
        "    raise AssertionError(version('no-such-package'))\n"
        "except PackageNotFoundError:\n"
        "    pass\n"
        "for name in ('twice', 'long'):\n"
        "    assert version(name) == metadata.version(name)\n"
        "assert 'msgspec' in {each.name for each in metadata.distributions()}\n"
        "import importlib.metadata._meta\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_module_about_packages_that_is_loaded_already_is_left_alone() -> None:
    program = (
        "import sys, importlib.metadata as before\n"
        "from dragoman.cli.startup import shorten_version_lookups; shorten_version_lookups()\n"
        "assert sys.modules['importlib.metadata'] is before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
