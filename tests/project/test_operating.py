"""The page for the operator on call, the alerts and the program name the same metrics and events."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from dragoman.cli import table
from dragoman.host.serving import acts
from dragoman.host.serving.metrics import METRICS, MOST_SERIES
from tests.project.sources import ROOT

PAGE = (ROOT / "docs/operating.md").read_text()
ALERTS = ROOT / "packaging/prometheus/alerts.yaml"
_NAMES = re.compile(r"\b(?:dragoman|process)_[a-z_]+[a-z]\b")
_SUFFIXES = ("_bucket", "_sum", "_count")


def base(name: str) -> str:
    """The metric that a sample belongs to."""
    found = next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), name)
    return found if found in METRICS else name


def test_the_page_has_a_row_for_each_metric_and_for_nothing_else() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| (\w+) \| (.*) \| (.*) \|$", PAGE[PAGE.index("## Metrics") :], re.MULTILINE)
    found = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), help) for name, kind, labels, help in rows}
    assert found == {name: (row.kind, row.labels, row.help) for name, row in METRICS.items()}
    assert f"at most {MOST_SERIES} series" in PAGE


def test_every_metric_is_moved_by_a_test() -> None:
    tests = "".join((ROOT / name).read_text() for name in TESTS)
    missing = [name for name in METRICS if f'"{name}' not in tests and f"'{name}" not in tests]
    assert not missing


TESTS = ("tests/host/serving/test_metrics.py", "tests/cli/test_serve_audit.py")


def test_page_and_alerts_use_metrics_that_there_are() -> None:
    for text in (PAGE, ALERTS.read_text()):
        unknown = {name for name in _NAMES.findall(text) if base(name) not in METRICS}
        assert not unknown


def test_each_alert_is_explained_on_the_page_and_each_explained_one_is_an_alert() -> None:
    written = re.findall(r"^      - alert: (\w+)$", ALERTS.read_text(), re.MULTILINE)
    explained = re.findall(r"^\| `(Dragoman\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(written) == sorted(explained)
    assert len(set(written)) == len(written) > 10


def test_the_page_names_every_event_of_the_log() -> None:
    sentence = PAGE[PAGE.index("`event` is ") : PAGE.index("No line has the text")]
    named = set(re.findall(r"`([a-z_]+)`", sentence)) - {"event", "method", "error"}
    own = {"prompt", "question", "answer", "cancel", "setting", "agent_ended", "request", "note", "log"}
    assert named == {*acts._KINDS.values(), *own, "connected", "disconnected", "paired", "unpaired", "session_removed"}


def test_commands_of_the_page_are_those_of_the_program() -> None:
    found = re.findall(r"\bdragoman ([a-z]+)((?: [^`\n|;]+)?)", PAGE)
    assert len(found) > 10
    for verb, rest in found:
        words = rest.split()
        nested = f"{verb} {words[0]}" if words else ""
        command = table.load(nested if nested in table.NESTED else verb)
        assert verb in table.COMMANDS, verb
        flags = {option.flag for option in command.options}
        assert {word for word in words if word.startswith("--")} <= flags, f"dragoman {verb}{rest}"


def test_promtool_finds_nothing_wrong_with_the_alerts() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run([promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
