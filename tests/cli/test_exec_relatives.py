"""The other verbs that talk to an agent: demo, sessions, login, logout."""

from __future__ import annotations

import json

import pytest

from tests.cli.exec_kit import Place, place
from tests.cli.terminal_kit import at_terminal

__all__ = ["place"]


def test_the_demo_shows_a_full_turn_without_a_terminal(place: Place) -> None:
    done = place.run(verb="demo")
    assert (done.code, done.out) == (0, "The new greeting: Hello, world!\nNice to meet you.\n")
    for words in (
        "the prompt, what the model says and what it does\ncome from a script",
        "The scripted prompt: Make the greeting friendlier.",
        "the model is scripted (scripted:",
        "--allow 'edit:*.txt'",
        "I will make the greeting friendlier.",
        "plan 1/3",
        "Read greeting.txt",
        "allowed edit: Edit greeting.txt (rule edit:*.txt (--allow))",
        "-Hello.",
        "+Hello, world!",
        "allowed execute: `tee welcome.txt < greeting.txt`",
        "│ Nice to meet you.",
        "end_turn",
        "demo --talk` is a tour of the terminal client.",
    ):
        assert words in done.err, words


def test_the_demo_keeps_and_promises_nothing_about_a_folder_that_is_gone(place: Place) -> None:
    done = place.run(verb="demo")
    assert "sessions rewind" not in done.err
    assert list(place.home.rglob("snapshots")) == []


def test_the_session_of_the_demo_is_named_after_its_prompt_not_after_its_script(place: Place) -> None:
    assert "title: Make the greeting friendlier.\n" in place.run(verb="demo").err
    [listed] = json.loads(place.run("list", "--json", verb="sessions").out)
    assert (listed["title"], listed["first_prompt"]) == ("Make the greeting friendlier.",) * 2


def test_the_demo_asks_the_user_if_ask_is_set(place: Place) -> None:
    with at_terminal(place, "demo", "--ask") as terminal:
        terminal.until(" > ")
        assert "+Hello, world!" in terminal.text
        terminal.type("y\n")
        terminal.until("tee welcome.txt")
        terminal.until(" > ")
        terminal.type("n\n")
        assert terminal.wait() == 0
    assert "The new greeting: The user refused this call." in terminal.text


def test_the_demo_without_a_user_to_ask_shows_the_cancelled_request(place: Place) -> None:
    done = place.run("--ask", verb="demo")
    assert done.code == 5
    assert "cancelled edit: Edit greeting.txt (nobody)" in done.err
    assert "The new greeting: Not permitted: no rule allows it" in done.out
    assert "no user can be asked" in done.out


def test_sessions_are_listed_for_people_and_programs(place: Place) -> None:
    done = place.run("list", verb="sessions", odd="remembers")
    assert done.code == 0, done.err
    header, first, *rest = done.out.splitlines()
    assert header.split() == ["NR", "SESSION", "UPDATED", "FOLDER", "TITLE"]
    assert first.split() == ["-", "elsewhere", "2027-01-01T00:00:00Z", "/", "Other"]
    assert len(rest) == 3
    listed = json.loads(place.run("list", "--json", verb="sessions", odd="remembers").out)
    assert [row["session_id"] for row in listed] == ["elsewhere", "newest", "new", "old"]
    assert listed[0]["title"] == "Other"


def test_sessions_can_be_limited_to_one_folder(place: Place) -> None:
    done = place.run("list", "--cwd", ".", "--json", verb="sessions", odd="remembers")
    assert [row["session_id"] for row in json.loads(done.out)] == ["newest", "new", "old"]


def test_without_a_name_the_sessions_are_those_of_the_built_in_agent(place: Place) -> None:
    done = place.run("--model", "scripted", "say hello")
    assert done.code == 0, done.err
    (listed,) = json.loads(place.run("list", "--json", verb="sessions").out)
    assert listed["title"] == "say hello"


def test_an_agent_without_sessions_gives_an_empty_list(place: Place) -> None:
    assert place.run("list", "-a", "scripted", "--json", verb="sessions").out == "[]\n"
    done = place.run("list", "-a", "scripted", verb="sessions")
    assert (done.code, done.out) == (0, "")


def test_a_session_can_be_deleted(place: Place) -> None:
    done = place.run("delete", "old", verb="sessions", odd="remembers")
    assert (done.code, done.out) == (0, "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("delete",), "sessions delete needs the id of a session"),
        (("list", "x"), "sessions list does not take an id"),
        (("delete", "x", "--json"), "--json goes with list and show and search"),
        (("list", "--cwd", "nowhere"), "--cwd nowhere: no such folder"),
        (("list",), "the agent does not offer session/list"),
        (("delete", "x"), "the agent does not offer session/delete"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_sessions_command_that_cannot_work_is_wrong_usage(words: tuple[str, ...], message: str, place: Place) -> None:
    done = place.run(*words, verb="sessions", odd="plain")
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize("verb", ["sessions", "login", "logout"])
def test_an_agent_that_does_not_start_is_4(verb: str, place: Place) -> None:
    action = ("list",) if verb == "sessions" else ()
    assert place.run(*action, "--", "no-such-agent-anywhere", verb=verb).code == 4
    assert place.run(*action, verb=verb, odd="dies-in-initialize").code == 4


def test_login_uses_the_method_named(place: Place) -> None:
    done = place.run("key", verb="login", odd="plain")
    assert done.code == 0
    assert "logged in" in done.err


def test_a_login_that_fails_is_7(place: Place) -> None:
    done = place.run("web", verb="login", odd="plain")
    assert done.code == 7
    assert "No browser" in done.err


@pytest.mark.parametrize(
    ("habit", "words", "message"),
    [
        ("plain", (), "offers several login methods"),
        ("plain", ("other",), "has no login method 'other'"),
        ("has-no-login", (), "offers no login method"),
        ("wants-a-variable", (), "for API key set ODD_KEY"),
        ("plain", ("key", "--list"), "--list does not take a method"),
        ("plain", ("key", "--json"), "--json goes with --list"),
    ],
)
def test_a_login_without_a_usable_method_is_wrong_usage(
    habit: str, words: tuple[str, ...], message: str, place: Place
) -> None:
    done = place.run(*words, verb="login", odd=habit)
    assert done.code == 2
    assert message in done.err


def test_login_methods_are_listed(place: Place) -> None:
    done = place.run("--list", verb="login", odd="plain")
    assert [line.split()[0] for line in done.out.splitlines()] == ["METHOD", "key", "web"]
    [method] = json.loads(place.run("--list", "--json", verb="login", odd="wants-a-variable").out)
    assert (method["id"], method["kind"], method["variables"]) == ("env", "environment", ["ODD_KEY"])


@pytest.mark.parametrize(("name", "code"), [("me", 0), ("you", 7)])
def test_a_login_on_the_terminal_runs_the_agents_program_there(name: str, code: int, place: Place) -> None:
    with at_terminal(place, "login", odd="logs-in-on-terminals") as terminal:
        terminal.until("who are you?")
        terminal.type(f"{name}\n")
        assert terminal.wait() == code
    assert ("logged in" in terminal.text) == (code == 0)


def test_a_terminal_login_without_a_terminal_names_the_command_to_run(place: Place) -> None:
    done = place.run(verb="login", odd="logs-in-on-terminals")
    assert done.code == 7
    assert "--login" in done.err


def test_the_user_chooses_between_several_login_methods(place: Place) -> None:
    with at_terminal(place, "login", odd="plain") as terminal:
        terminal.until(" > ")
        assert "API key" in terminal.text
        terminal.type("1\n")
        assert terminal.wait() == 0


def test_logout_needs_an_agent_that_supports_it(place: Place) -> None:
    assert place.run("-a", "scripted", verb="logout").code == 0
    done = place.run(verb="logout", odd="plain")
    assert done.code == 2
    assert "auth.logout" in done.err


def test_an_editor_logs_in_with_its_launch_command_and_the_words_of_the_host(place: Place) -> None:
    """`dragoman connect unix:PATH` is what it starts; the host's words stand behind that (rule 71)."""
    assert place.run("add", "mine", verb="agents", odd="plain").code == 0
    done = place.run("unix:/run/host.sock", "-a", "other", "login", "-a", "mine", verb="connect")
    assert (done.code, "mine offers several login methods" in done.err) == (2, True), done.err
    done = place.run("wss://agents.example/acp", "login", "-a", "mine", verb="connect")
    assert done.code == 2
    assert "the agent is on another machine" in done.err
