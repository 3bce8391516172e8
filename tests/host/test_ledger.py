"""Hosted sessions in the ledger of sessions: one entry each, next to those of `exec`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from dragoman.store.ledger import Ledger, LedgerEntry, NewEntry
from dragoman.store.ledger_record import pack, record_prompt
from tests.host.kit import OURS, OnTheWire, hosted

END = {"stopReason": "end_turn"}


async def written(ledger: Ledger, **wanted: object) -> LedgerEntry:
    """The one entry, when its file has what is wanted: a ledger is written by a thread."""
    async with asyncio.timeout(60):
        while True:
            found = await asyncio.to_thread(ledger.entries)
            assert len(found) <= 1
            if found and all(getattr(found[0], name) == value for name, value in wanted.items()):
                return found[0]


async def test_a_hosted_session_has_one_entry_with_its_turns(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    source = OnTheWire()
    async with hosted(source, ledger=ledger) as host:
        line, session = await host.opened(OURS)
        assert ledger.entries() == [], "a session without a turn is none"
        for number, text in enumerate(("first prompt", "second"), 1):
            id = line.prompt(session, text)
            prompt = await source.agent.prompted()
            await written(ledger, state="running", turns=number)
            source.agent.update("session_info_update", title="A title")
            source.agent.say("hello")
            source.agent.reply(prompt, END)
            while (await line.next()).get("id") != id:
                pass
        entry = await written(ledger, state="ended", turns=2)
        assert (entry.agent, entry.session_id, entry.folder) == ("test", "their-1", "/tmp")
        assert (entry.first_prompt, entry.title, entry.turns) == ("first prompt", "A title", 2)
        assert (entry.state, entry.exit_code, entry.stop_reason) == ("ended", 0, "end_turn")
        assert entry.command == ("test", "--acp")
        assert entry.can_reopen
        records = ledger.turns(entry.number)
        assert [record.prompt[0]["text"] for record in records] == ["first prompt", "second"]
        assert "hello" in str(records[1].updates)
        id = line.prompt(session)
        await source.agent.prompted()
        source.die()
        while (await line.next()).get("id") != id:
            pass
        entry = await written(ledger, state="ended", turns=3)
        assert entry.exit_code == 4
        assert entry.error is not None
    ledger.close()


async def test_a_session_that_exec_began_goes_on_in_its_entry(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    entry = NewEntry(agent="test", command=("test",), session_id="their-1", folder="/tmp", first_prompt="by exec")
    ledger.begin_turn(entry, pack(record_prompt([])), is_new=True).result()
    source = OnTheWire()
    async with hosted(source, ledger=ledger) as host:
        line, session = await host.opened()
        host.session(session).prompts.turn_number = 1  # as after a load of an earlier session
        id = line.prompt(session)
        source.agent.reply(await source.agent.prompted(), END)
        await line.answer_to(id)
        found = await written(ledger, state="ended", turns=2)
        assert found.first_prompt == "by exec"
    ledger.close()


async def test_known_keys_are_not_written(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db")
    source = OnTheWire()
    async with hosted(source, ledger=ledger) as host:
        line = await host.client(OURS)
        env = {"OPENAI_API_KEY": "sk-verysecretvalue123"}
        session = await line.open("/tmp", _meta={"dragoman": {"env": env}})
        id = line.prompt(session, "my key is sk-verysecretvalue123")
        source.agent.reply(await source.agent.prompted(), END)
        while (await line.next()).get("id") != id:
            pass
        entry = await written(ledger, state="ended")
        assert "sk-verysecretvalue123" not in entry.first_prompt
        assert "sk-verysecretvalue123" not in str(ledger.turns(entry.number))
    ledger.close()


async def test_a_hosted_session_is_one_row_of_the_list_of_sessions(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "dragoman" / "ledger.db")
    source = OnTheWire()
    async with hosted(source, ledger=ledger) as host:
        line, session = await host.opened()
        for text in ("first", "second"):
            id = line.prompt(session, text)
            source.agent.reply(await source.agent.prompted(), END)
            await line.answer_to(id)
        await written(ledger, state="ended", turns=2)
    ledger.close()
    env = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    done = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", "sessions", "list", "--json"),
        env={**env, "XDG_DATA_HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await done.communicate()
    rows = json.loads(out)
    assert [(row["agent"], row["session_id"], row["turns"]) for row in rows] == [("test", "their-1", 2)]
