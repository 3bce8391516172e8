"""Decision records that compare our own code with a library state how large our code is today."""

from __future__ import annotations

import re

import pytest

from tests.project.sources import PACKAGE, ROOT, text_of

DECISIONS = ROOT / "docs" / "decisions"
TOLERANCE = (
    0.1  # a record is read as a size, not as a count; when code has grown by more, the choice is looked at again
)
REMOTE = "transports/remote"
NOT_SERVER = ("asgi", "asgi_websocket", "connect", "http_client", "http_transport", "sse", "__init__")
ROW = r"`{}`[^|]*\| ([\d,]+) \|"

SIZES: list[tuple[str, str, str]] = [
    *(
        ("0012", ROW.format(re.escape(name)), name)
        for name in (
            "builtin/web/http_client.py",
            "uistream/partial_json.py",
            "cli/shells.py",
            "cli/prompt/",
            "policy/commands.py",
            "settings/documents.py",
            "settings/places.py",
            "process/proctable.py",
        )
    ),
    ("0015", r"\*\*Cost\.\*\* ([\d,]+) lines", "builtin/models/wire_forms/"),
    ("0017", r"of ([\d,]+) in `transports/remote/`", f"{REMOTE}/"),
    ("0017", r"([\d,]+) for the ASGI application", f"{REMOTE}/asgi*.py"),
    ("0017", r"\*\*Cost\.\*\* ([\d,]+) lines", f"{REMOTE}/*.py"),
    ("0019", r"\*\*Cost\.\*\* ([\d,]+) lines", "snapshots/"),
]


def count_lines(pattern: str) -> int:
    """The lines of a file, of all files below a folder, or of the files of a pattern."""
    paths = PACKAGE.glob(f"{pattern}**/*.py") if pattern.endswith("/") else PACKAGE.glob(pattern)
    is_server = pattern == f"{REMOTE}/*.py"
    return sum(len(text_of(path).splitlines()) for path in paths if not (is_server and path.stem in NOT_SERVER))


@pytest.mark.parametrize(("number", "sentence", "pattern"), SIZES)
def test_a_record_states_the_size_of_today(number: str, sentence: str, pattern: str) -> None:
    (record,) = DECISIONS.glob(f"{number}-*.md")
    stated = re.search(sentence, record.read_text())
    assert stated, f"{record.name} states no size with {sentence}"
    counted = count_lines(pattern)
    size = int(stated[1].replace(",", ""))
    assert abs(size - counted) <= TOLERANCE * counted, f"{record.name}: {size} lines, {pattern} has {counted}"
