"""`dragoman exec` as a user runs it: two subagents in parallel, one refused, one cancelled with the run."""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

from dragoman.store.messages import message_from_row
from dragoman.store.sessions import Store
from dragoman.uistream.messages import TextPart, ToolPart, UIMessage
from tests.builtin.subagents.test_runs import task
from tests.cli.exec_kit import Place, place
from tests.project.sources import ROOT

__all__ = ["place"]


async def runs(store_path: Path) -> dict[str, UIMessage]:
    """The last message of each subagent of the only session, by the id of its task."""
    store = await Store.open(store_path)
    try:
        (session,) = (await store.sessions()).sessions
        rows = await store.children(session.id)
        assert [await store.live_log(row.id) for row in rows] == [None] * len(rows)
        return {row.metadata["subagent"]["id"]: message_from_row((await store.messages(row.id))[-1]) for row in rows}
    finally:
        await store.close()


def test_of_two_parallel_runs_one_is_refused_and_the_other_cancelled(place: Place) -> None:
    script = "\n".join(
        [
            task("build", "write secret.txt x", "run touch next", "write refused x", "say {result}"),
            f"& {task('build', 'run touch started; sleep 60', 'say never')}",
        ]
    )
    flags = ("--model", "scripted", "--allow", "*", "--deny", "edit:secret.txt", "--output", "json")
    with place.started(*flags, script) as process:
        deadline = time.monotonic() + 30
        while not all((place.project / name).exists() for name in ("refused", "started")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)  # files of another program raise no event here
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert not (place.project / "secret.txt").exists()
    assert "build: " in out
    found = asyncio.run(runs(next(place.home.rglob("sessions.db"))))
    refused = [part for part in found["task_1"].parts if isinstance(part, ToolPart)]
    assert refused[1].state == "output-available"  # it went on with the rest
    assert refused[0].state in ("output-denied", "output-error")
    assert found["task_2"].metadata["cancelled"] is True
    assert not [part for part in found["task_2"].parts if isinstance(part, TextPart)]


def test_a_rule_about_a_server_counts_for_its_tools_in_a_subagent(place: Place) -> None:
    words = [str(ROOT / "tests" / "adapters" / "mcp_program.py"), str(place.home / "pid")]
    servers = place.home / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"tally": {"command": sys.executable, "args": words}}}))
    script = task("build", 'call tally_add {"a": 2, "b": 3}', "say {result}") + "\nsay {result}"
    flags = ("--model", "scripted", "--mcp-config", str(servers))
    allowed = place.run(*flags, "--allow", "mcp:tally", script)
    assert allowed.code == 0, allowed.err
    assert "sum 5" in allowed.out
    denied = place.run(*flags, "--allow", "*", "--deny", "mcp:tally:add", script)
    assert "sum 5" not in denied.out, "a rule that denies is not passed by a subagent"
