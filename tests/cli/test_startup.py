"""Shortcuts for a quick start have no lasting effect."""

import subprocess
import sys
from pathlib import Path


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
