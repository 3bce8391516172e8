"""The sessions of all agents: the ledger that `exec` writes, `--continue`, `--resume`, and `dragoman sessions`."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.exec_kit import SECONDS, Done, Place, place, read_until
from tests.cli.terminal_kit import at_terminal

__all__ = ["place"]
KEY = "sk-ant-0123456789abcdef"


def sessions(place: Place, *words: str, odd: str | None = None) -> Done:
    return place.run(*words, verb="sessions", odd=odd)


def listed(place: Place, *words: str, odd: str | None = None) -> list[dict[str, Any]]:
    done = sessions(place, "list", *words, "--json", odd=odd)
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def ledger_bytes(place: Place) -> bytes:
    folder = place.home / "dragoman" / "data"
    return b"".join(path.read_bytes() for path in folder.glob("ledger.db*") if path.is_file())


def test_session_of_an_agent_that_cannot_list_is_listed_and_shown_without_it(place: Place) -> None:
    assert place.run("make it", odd="shows-diffs").code == 0
    [row] = listed(place)
    assert (row["number"], row["session_id"], row["first_prompt"]) == (1, "s", "make it")
    assert (row["cwd"], row["exit_code"], row["state"], row["turns"]) == (str(place.project), 0, "ended", 1)
    assert [(file["path"].rpartition("/")[2], file["change"]) for file in row["files"]] == [
        ("a.txt", "modified"),
        ("b.txt", "created"),
    ]
    assert row["known_by"] == ["ledger"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["updated_at"])
    shown = sessions(place, "show", "@1", "--offline").out
    assert "you:\n  make it\n" in shown
    assert "tool: edit a.txt, completed\n" in shown
    assert "  -a\n  +b\n" in shown
    # The agent itself is asked when it is named, and the ledger fills in what it does not know.
    done = sessions(place, "list", odd="shows-diffs")
    assert done.code == 0
    assert "does not list its sessions; these are from the ledger" in done.err
    assert "@1  s        20" in done.out


def test_output_of_a_terminal_is_kept(place: Place) -> None:
    place.run("echo from-the-terminal", "--allow", "execute", "-a", "scripted")
    done = place.run("terminal", "--allow", "execute", "-a", "scripted", "--output", "json")
    assert done.code == 0, done.err
    exported = json.loads(sessions(place, "export", "@2", "--format", "json").out)
    [call] = [block for block in exported["blocks"] if block["type"] == "tool_call"]
    [terminal] = [piece for piece in call["content"] if piece["type"] == "terminal"]
    assert terminal["exit_code"] == 0
    assert terminal["output"].strip()
    assert terminal["command"] in sessions(place, "export", "@2").out


def test_sessions_of_the_built_in_agent_appear_once_and_with_all_their_turns(place: Place) -> None:
    assert place.run("--model", "scripted", "say one").code == 0
    assert place.run("--model", "scripted", "--no-ledger", "say two", "--continue").code == 0
    assert place.run("--model", "scripted", "--no-ledger", "say three").code == 0
    rows = listed(place)
    assert [(row["number"], row["title"], row["known_by"]) for row in rows] == [
        (None, "say three", ["agent"]),
        (1, "say one", ["ledger", "agent"]),
    ]
    assert rows == listed(place, "-a", "dragoman")
    shown = sessions(place, "show", "say one").out
    assert "you:\n  say one\n\nagent:\n  one\n\nyou:\n  say two\n\nagent:\n  two\n" in shown
    found = json.loads(sessions(place, "search", "THREE", "--json").out)
    assert [row["session_id"] for row in found] == [rows[0]["session_id"]]


def test_the_built_in_agent_behind_two_dashes_is_the_same_session_as_in_its_store(place: Place) -> None:
    command = ("--", *place.words("agent", "--model", "scripted"))
    session = place.run("say one", "--output", "json", *command).result["session_id"]
    [row] = listed(place)
    assert (row["session_id"], row["known_by"], row["number"]) == (session, ["ledger", "agent"], 1)
    # What another client did with it is shown, too.
    assert place.run("--no-ledger", "say two", "-a", "dragoman", "--model", "scripted", "--resume", session).code == 0
    shown = sessions(place, "show", "@1").out
    assert "agent:\n  one\n" in shown
    assert "agent:\n  two\n" in shown
    assert [each["session_id"] for each in listed(place, "-a", "dragoman")] == [session]
    of_command = json.loads(sessions(place, "list", "--json", *command).out)
    assert [each["session_id"] for each in of_command] == [session]
    assert sessions(place, "rename", "@1", "Numbers").code == 0
    assert [each["title"] for each in listed(place)] == ["Numbers"]
    assert sessions(place, "delete", "@1").code == 0
    assert listed(place) == []


def test_last_names_the_session_that_was_used_last(place: Place) -> None:
    done = sessions(place, "show", "last")
    assert done.code == 2
    assert "there is no session yet" in done.err
    (place.project / "sub").mkdir()
    first = place.run("say one", "-a", "scripted", "--output", "json").result["session_id"]
    place.run("say two", "-a", "scripted", "--cwd", "sub")
    assert "agent:\n  two\n" in sessions(place, "show", "last").out
    assert "agent:\n  one\n" in sessions(place, "show", "last", "--cwd", ".").out
    place.run("x", odd="shows-diffs")
    assert sessions(place, "export", "last").out.startswith("# x\n")
    assert "agent:\n  two\n" in sessions(place, "show", "last", "-a", "scripted", "--offline").out
    assert sessions(place, "rename", "last", "Newest").code == 0
    assert listed(place)[0]["title"] == "Newest"
    assert sessions(place, "delete", "last", "--offline").code == 0
    assert sessions(place, "delete", "last", "--offline").code == 0
    assert [row["session_id"] for row in listed(place)] == [first]


def test_continue_takes_the_last_session_of_this_agent_in_this_folder(place: Place) -> None:
    (place.project / "sub").mkdir()
    first = place.run("--model", "scripted", "say one", "--output", "json").result["session_id"]
    place.run("--model", "scripted", "say two", "--cwd", "sub")
    place.run("say other", "-a", "scripted")
    again = place.run("--model", "scripted", "-c", "say three", "--output", "json").result
    assert (again["session_id"], again["text"]) == (first, "three")
    assert [row["turns"] for row in listed(place, "--cwd", ".", "-a", "dragoman")] == [2]


def test_continue_follows_the_agents_list_where_there_is_one(place: Place) -> None:
    # The ledger has a newer session, which the agent does not list: it is gone.
    assert place.run("x", odd="remembers").code == 0
    assert place.run("x", "--continue", odd="remembers").out == "resumed newest\n"
    # A session that was continued here is the last one, whatever time the agent reports.
    assert place.run("x", "--resume", "old", odd="remembers").out == "resumed old\n"
    assert place.run("x", "--continue", odd="remembers").out == "resumed old\n"


def test_agent_that_lists_only_one_folder_is_asked_about_this_one(place: Place) -> None:
    rows = listed(place, odd="lists-a-folder")
    assert {row["session_id"] for row in rows} == {"old", "new", "newest", "elsewhere"}


@pytest.mark.parametrize("word", ["@1", "The bug", "bug", "prefix"])
def test_resume_finds_a_session_by_number_title_or_the_beginning_of_its_id(word: str, place: Place) -> None:
    first = place.run("--model", "scripted", "say one", "--output", "json").result["session_id"]
    assert sessions(place, "rename", "@1", "The bug").code == 0
    named = first[:20] if word == "prefix" else word
    again = place.run("--model", "scripted", "--resume", named, "say two", "--output", "json").result
    assert again["session_id"] == first
    assert listed(place)[0]["title"] == "The bug"


def test_resume_explains_what_it_cannot_do(place: Place) -> None:
    def refused(*words: str, odd: str | None = None) -> str:
        done = place.run("x", *words, odd=odd)
        assert done.code == 2
        return done.err

    assert "this agent has no session in" in refused("--continue", odd="plain")
    assert place.run("one", odd="plain").code == 0
    message = refused("--continue", odd="plain")
    assert "--continue: this agent can neither resume nor load a session" in message
    assert "dragoman sessions list" in message
    assert "the ledger has no such session" in refused("--resume", "@7", odd="plain")
    assert "both name a session" in refused("--resume", "s", "--continue", odd="plain")
    assert "--resume takes a session" in refused("--resume", " ", odd="plain")
    place.run("two", odd="plain")  # the agent calls its sessions "s", all of them
    assert "the agent has used the id s for a newer session" in refused("--resume", "@1", odd="plain")
    (place.project / "sub").mkdir()
    assert "that is a session of" in refused("--resume", "@2", "--cwd", "sub", odd="plain")
    place.run("--model", "scripted", "say one")
    place.run("--model", "scripted", "say one more")
    assert "it names 2 sessions: @4" in refused("--model", "scripted", "--resume", "say")


def test_nothing_is_written_if_the_user_does_not_want_it(place: Place) -> None:
    assert place.run("swordfish", "--no-ledger", odd="plain").code == 0
    config = place.home / "dragoman" / "config"
    config.mkdir(parents=True)
    (config / "settings.json").write_text('{"ledger": false}')
    assert place.run("swordfish", odd="plain").code == 0
    assert not list((place.home / "dragoman").glob("data/ledger*"))
    assert listed(place) == []


def test_keys_are_masked_in_the_ledger(place: Place) -> None:
    place.environment["ANTHROPIC_API_KEY"] = KEY
    assert place.run(f"my key is {KEY}", odd="plain").code == 0
    assert place.run("prints-environment", odd="prints-environment").code == 0
    exported = "".join(sessions(place, "export", f"@{number}", "--format", "json").out for number in (1, 2))
    del place.environment["ANTHROPIC_API_KEY"]  # what is stored does not have it either
    exported += "".join(sessions(place, "export", f"@{number}", "--format", "json").out for number in (1, 2))
    assert KEY not in exported
    assert exported.count("[ANTHROPIC_API_KEY]") >= 4
    assert KEY.encode() not in ledger_bytes(place)


def test_ledger_that_cannot_be_written_costs_a_note_and_not_the_run(place: Place) -> None:
    data = place.home / "dragoman" / "data"
    data.mkdir(parents=True)
    (data / "ledger.db").write_bytes(b"this is not a database, and long enough to be read as one" * 20)
    done = place.run("hello", odd="plain")
    assert (done.code, done.out) == (0, "hello\n")
    assert "this run is not in the ledger of sessions: the ledger" in done.err
    assert sessions(place, "list").code == 2


def test_killed_run_is_shown_as_interrupted_with_its_prompt(place: Place) -> None:
    with place.started("wait for it", "--output", "events", odd="never-listens") as process:
        read_until(process, "working")
        assert listed(place)[0]["state"] == "running"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    [row] = listed(place)
    assert (row["state"], row["exit_code"], row["first_prompt"]) == ("interrupted", None, "wait for it")
    assert "wait for it" in sessions(place, "show", "@1").out


def test_killed_run_keeps_what_was_shown_some_seconds_before(place: Place) -> None:
    from dragoman.store.ledger import Ledger
    from dragoman.store.ledger_record import texts_of

    with place.started("wait for it", "--output", "events", odd="never-listens") as process:
        read_until(process, "working")
        ledger = Ledger.open(place.home / "dragoman" / "data" / "ledger.db")
        deadline = time.monotonic() + SECONDS
        while "working" not in [text for record in ledger.turns(1) for text in texts_of(record)]:
            assert time.monotonic() < deadline
            time.sleep(0.05)  # another process writes the file, which raises no event here
        ledger.close()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert "agent:\n  working\n" in sessions(place, "show", "@1").out


def test_failed_and_cancelled_runs_are_kept_with_their_exit_code(place: Place) -> None:
    assert place.run("x", odd="dies-with-open-tools").code == 4
    with place.started("x", "--output", "events", odd="is-done-anyway") as process:
        read_until(process, "working")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 143
    assert [row["exit_code"] for row in listed(place)] == [143, 4]
    assert "tool: execute Compiling, failed" in sessions(place, "show", "@1").out


def test_session_is_exported_as_markdown_html_and_json(place: Place) -> None:
    place.run("make <b>it</b>", odd="shows-diffs")
    assert sessions(place, "export", "@1").out.startswith("# make \\<b\\>it\\</b\\>\n")
    for name, words in (
        ("a.md", "```diff"),
        ("a.html", "make &lt;b&gt;it&lt;/b&gt;"),
        ("a.json", '"dragoman.session/1"'),
    ):
        done = sessions(place, "export", "@1", "-o", name)
        assert (done.code, done.out, done.err) == (0, "", f"dragoman: wrote {name}\n")
        path = place.project / name
        assert words in path.read_text()
        assert path.stat().st_mode & 0o077 == 0
    assert '<span class="added">+b' in (place.project / "a.html").read_text()
    assert json.loads((place.project / "a.json").read_text())["blocks"][0]["role"] == "user"


def test_search_finds_prompts_answers_and_paths(place: Place) -> None:
    place.run("first question", odd="plain")
    place.run("make it", odd="shows-diffs")
    for word, number in (("QUESTION", "@1"), ("b.txt", "@2")):
        done = sessions(place, "search", word)
        assert [line.split()[0] for line in done.out.splitlines()] == ["NR", number]
    done = sessions(place, "search", "nothing like this")
    assert (done.code, done.out) == (0, "")


def test_delete_removes_a_session_at_its_agent_and_from_the_ledger(place: Place) -> None:
    place.run("--model", "scripted", "say swordfish")
    place.run("swordfish", odd="plain")
    done = sessions(place, "delete", "@2")
    assert "deleted from the ledger; the agent may still have it" in done.err
    done = sessions(place, "delete", "say sword")
    assert (done.code, done.err) == (0, "dragoman: the session is deleted\n")
    assert listed(place) == []
    assert b"swordfish" not in ledger_bytes(place)
    done = sessions(place, "delete", "@2")
    assert done.code == 2
    assert "no session is called '@2'" in done.err


def test_ambiguous_word_deletes_nothing(place: Place) -> None:
    place.run("--model", "scripted", "say one")
    place.run("--model", "scripted", "say one more")
    done = sessions(place, "delete", "say", "-a", "dragoman")
    assert done.code == 2
    assert "'say' names 2 sessions: @2 say one more, @1 say one" in done.err
    assert len(listed(place)) == 2


def test_session_that_only_the_agent_knows_is_loaded_to_be_shown(place: Place) -> None:
    place.run("--model", "scripted", "--no-ledger", "say hello")
    [row] = listed(place)
    (place.home / "dragoman" / "data" / "sessions.db").rename(place.home / "other.db")
    agent = (
        "--",
        place.python,
        "-m",
        "dragoman",
        "agent",
        "--model",
        "scripted",
        "--store",
        str(place.home / "other.db"),
    )
    assert listed(place) == []
    done = sessions(place, "show", row["session_id"], *agent)
    assert done.code == 0, done.err
    assert "agent:\n  hello" in done.out
    assert sessions(place, "show", row["session_id"], "--offline", *agent).code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show",), "sessions show needs the id of a session"),
        (("search",), "sessions search needs a text"),
        (("rename", "@1"), "sessions rename needs a title"),
        (("show", "@1", "x"), "sessions show takes one word, not also 'x'"),
        (("show", "@1", "--format", "md"), "--format goes with export"),
        (("list", "--limit", "x"), "--limit takes a number above 0"),
        (("show", "nothing"), "no session is called 'nothing'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_usage_is_explained(words: tuple[str, ...], message: str, place: Place) -> None:
    done = sessions(place, *words)
    assert done.code == 2
    assert message in done.err


def test_times_are_relative_on_a_terminal(place: Place) -> None:
    place.run("hello", odd="plain")
    with at_terminal(place, "sessions", "list") as terminal:
        terminal.until("just now")
        assert terminal.wait() == 0


def test_table_fits_the_terminal_and_its_short_ids_can_be_used(place: Place) -> None:
    place.environment |= {"HOME": str(place.project.parent), "COLUMNS": "100", "NO_COLOR": "1"}
    whole = place.run("--model", "scripted", "say " + "one " * 30, "--output", "json").result["session_id"]
    with at_terminal(place, "sessions", "list") as terminal:
        assert terminal.wait() == 0
    [_, line] = terminal.text.splitlines()
    assert len(line) <= 100
    assert " ~/project " in line
    short = line.split()[1]
    assert whole.startswith(short)
    assert len(short) < len(whole)
    again = place.run("--model", "scripted", "--resume", short, "say two", "--output", "json").result
    assert again["session_id"] == whole


def test_ids_of_sessions_are_completed(place: Place) -> None:
    session = place.run("--model", "scripted", "say one", "--output", "json").result["session_id"]
    for shell in ("bash", "zsh", "fish"):
        script = place.run(shell, verb="completion").out
        assert session in script


def test_ids_that_a_shell_would_read_are_not_completed(place: Place, tmp_path: Path) -> None:
    from dragoman.store.ledger import Ledger, NewEntry

    ledger = Ledger.open(place.home / "dragoman" / "data" / "ledger.db")
    entry = NewEntry(agent="a", command=("x",), session_id="$(touch owned)", folder=str(tmp_path))
    ledger.begin_turn(entry, b"", is_new=True).result()
    ledger.close()
    assert "owned" not in place.run("bash", verb="completion").out
