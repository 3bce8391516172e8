"""`dragoman agent login` and `logout`, as a user and as a client run them."""

from __future__ import annotations

import json
import stat
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dragoman.cli.commands.agent import COMMAND
from tests.builtin.providers.server import VARIABLES, WIRES, ProviderServer, refused, text_answer
from tests.cli.exec_kit import Done, Place, place
from tests.cli.terminal_kit import at_terminal

__all__ = ["place"]

KEY = "sk-ant-api03-0123456789abcdef"


class Lists(ThreadingHTTPServer):
    """A provider that lists one model for one key."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.keys: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Lists)
        key = self.headers.get("x-api-key", "")
        self.server.keys.append(key)
        is_right = key == KEY
        message = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key {key}"}}
        body = json.dumps({"data": [{"id": "claude-sonnet-5-5"}], "has_more": False} if is_right else message).encode()
        self.send_response(200 if is_right else 401)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: object) -> None:
        pass


@pytest.fixture
def lists(place: Place) -> Iterator[Lists]:
    """A provider on this machine, and an environment without keys."""
    for name in VARIABLES:
        place.environment.pop(name, None)
    with Lists() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        place.environment["ANTHROPIC_BASE_URL"] = server.url
        yield server
        server.shutdown()
        thread.join()


def credentials(place: Place) -> Path:
    return place.home / "dragoman" / "config" / "credentials.json"


def agent(place: Place, *words: str, stdin: str | None = None) -> Done:
    return place.run(*words, verb="agent", stdin=stdin)


def stored(place: Place) -> dict[str, str]:
    return {id: entry["key"] for id, entry in json.loads(credentials(place).read_text())["keys"].items()}


def test_a_key_from_stdin_is_checked_and_stored_and_never_shown(place: Place, lists: Lists) -> None:
    done = agent(place, "login", "anthropic", stdin=f"{KEY}\n")
    assert done.code == 0, done.err
    assert done.out == ""
    assert f"the key of Anthropic is stored in {credentials(place)}; Anthropic lists 1 model with it" in done.err
    assert KEY not in done.err
    assert stored(place) == {"anthropic": KEY}
    assert lists.keys == [KEY]
    assert stat.S_IMODE(credentials(place).stat().st_mode) == 0o600
    removed = agent(place, "logout")
    assert (removed.code, "the key of anthropic was removed" in removed.err) == (0, True)
    assert stored(place) == {}
    assert "no key is stored" in agent(place, "logout").err


def test_a_key_that_the_provider_refuses_is_not_stored(place: Place, lists: Lists) -> None:
    done = agent(place, "login", "anthropic", stdin="sk-ant-wrong-0123456789")
    assert done.code == 7
    assert "nothing was stored: Anthropic refused the key: invalid x-api-key [" in done.err
    assert "; the key comes from stdin" in done.err
    assert "sk-ant-wrong" not in done.err
    assert not credentials(place).exists()


def test_a_provider_that_cannot_be_reached_does_not_prevent_the_login(place: Place, lists: Lists) -> None:
    place.environment["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:1"
    done = agent(place, "login", "anthropic", stdin=KEY)
    assert done.code == 0, done.err
    assert "it was not checked" in done.err
    assert stored(place) == {"anthropic": KEY}


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (("login",), KEY, "login needs the name of a provider"),
        (("login", "antropic"), KEY, "did you mean anthropic?"),
        (("login", "bedrock"), KEY, "does not log in with a key alone"),
        (("login", "anthropic"), "", "no key was given"),
        (("login", "anthropic"), "two words", "no spaces"),
        (("login", "anthropic", "--keyring"), KEY, "pip install keyring"),
        (("doctor", "anthropic"), "", "does not take 'anthropic'"),
        (("--keyring",), "", "is for dragoman agent login"),
        (("logout", "nothing"), "", "no provider is called"),
    ],
)
def test_what_cannot_be_done_names_what_to_do(
    place: Place, lists: Lists, words: tuple[str, ...], stdin: str, message: str
) -> None:
    done = agent(place, *words, stdin=stdin)
    assert done.code == 2, done.err
    assert message in done.err
    assert not credentials(place).exists()


def test_at_a_terminal_it_asks_and_does_not_show_the_key(place: Place, lists: Lists) -> None:
    with at_terminal(place, "agent", "login") as terminal:
        terminal.until("m for 20 more: ")
        terminal.type("1\n")
        terminal.until("(it is not shown): ")
        terminal.type(f"{KEY}\n")
        assert terminal.wait() == 0, terminal.text
    assert "Anthropic lists 1 model" in terminal.text
    assert KEY not in terminal.text
    assert stored(place) == {"anthropic": KEY}


def test_at_a_terminal_a_refusal_is_reported_at_once_and_an_unreachable_provider_is_the_users_decision(
    place: Place, lists: Lists
) -> None:
    wrong = "sk-ant-wrong-0123456789"
    with at_terminal(place, "agent", "login") as terminal:
        terminal.until("  1  anthropic")
        terminal.until("mistral")
        terminal.until("m for 20 more: ")
        assert "lmstudio" not in terminal.text
        terminal.type("m\n")
        terminal.until("lmstudio")
        terminal.type("no such name\n")
        assert terminal.wait() == 2
        assert "no provider is called" in terminal.text
    with at_terminal(place, "agent", "login") as terminal:
        terminal.until("m for 20 more: ")
        terminal.type("anth\n")
        terminal.until("(it is not shown): ")
        terminal.type(f"{wrong}\n")
        assert terminal.wait() == 7, terminal.text
    assert "nothing was stored: Anthropic refused the key" in terminal.text
    assert "the key comes from your input" in terminal.text
    assert wrong not in terminal.text
    place.environment["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:1"
    for answer, code in (("\n", 130), ("y\n", 0)):
        assert not credentials(place).exists()
        with at_terminal(place, "agent", "login", "anthropic") as terminal:
            terminal.until("(it is not shown): ")
            terminal.type(f"{KEY}\n")
            terminal.until("Store the key unchecked? [y/N] ")
            assert "Anthropic could not be asked" in terminal.text
            terminal.type(answer)
            assert terminal.wait() == code, terminal.text
    assert stored(place) == {"anthropic": KEY}


def test_login_to_another_agent_takes_a_typed_key_and_shows_it_nowhere(place: Place, lists: Lists) -> None:
    """Only the method that can succeed is left, so that nothing has to be chosen."""
    with at_terminal(place, "login", odd="takes-a-key") as terminal:
        terminal.until("API key of Anthropic (it is not shown")
        terminal.type("sk-ant-wrong-0123456789\n")
        terminal.until("Anthropic refused the key")
        terminal.until("API key of Anthropic (it is not shown")
        terminal.type(f"{KEY}\n")
        assert terminal.wait() == 7, terminal.text
    assert "not a key: [" in terminal.text  # of the agent, which repeats the key
    assert KEY not in terminal.text
    assert "sk-ant-wrong" not in terminal.text
    assert not credentials(place).exists()


def test_a_typed_key_for_a_variable_is_stored_for_that_agent_and_given_to_it_only(place: Place) -> None:
    command = place.words("exec", odd="wants-a-variable")
    words = command[command.index("--") + 1 :]
    assert place.run("add", "odd", "--", *words, verb="agents").code == 0
    with at_terminal(place, "login", "-a", "odd") as terminal:
        terminal.until("API key (it is not shown)")
        terminal.type("typed-0123456789\n")
        assert terminal.wait() == 0, terminal.text
    assert f"odd gets the key as ODD_KEY; it is stored in {credentials(place)}" in terminal.text
    assert "typed-0123456789" not in terminal.text
    assert stored(place) == {"odd/ODD_KEY": "typed-0123456789"}
    shown = place.run("show", "odd", "--json", verb="agents")
    assert json.loads(shown.out)["env"] == ["ODD_KEY"]
    assert "typed-0123456789" not in shown.out
    assert agent(place, "logout", "odd/ODD_KEY").code == 0
    assert stored(place) == {}


def test_a_run_at_a_terminal_offers_the_login_and_goes_on_with_it(place: Place, lists: Lists) -> None:
    place.environment["DRAGOMAN_MODEL_LISTS"] = "off"
    with ProviderServer(text_answer("I am here")) as server:
        place.environment |= WIRES["anthropic"].variables(server.url)
        del place.environment["ANTHROPIC_API_KEY"]
        for answer, code in (("n", 7), ("", 0)):
            with at_terminal(place, "exec", "--model", WIRES["anthropic"].model, "hello") as terminal:
                terminal.until("Log in now with dragoman agent --model ")
                terminal.type(f"{answer}\n")
                if not code:
                    terminal.until("API key of Anthropic (it is not shown): ")
                    terminal.type(f"{KEY}\n")
                assert terminal.wait() == code, terminal.text
        assert server.asked[0].headers["x-api-key"] == KEY
    assert "I am here" in terminal.text
    assert KEY not in terminal.text


PLAIN = [option for option in COMMAND.options if option.flag not in ("--json", "--keyring")]


@pytest.mark.parametrize("option", PLAIN, ids=lambda option: option.flag)
def test_the_word_works_after_every_option(place: Place, lists: Lists, option: object) -> None:
    """A client with terminals adds the word to the command that it has for the agent, whatever its options are."""
    chosen = next(each for each in PLAIN if each is option)
    value = chosen.choices[0] if chosen.choices else "anthropic:claude-sonnet-5-5" if "model" in chosen.flag else "1"
    words = (chosen.flag, value) if chosen.value else (chosen.flag,)
    provider = () if chosen.flag == "--model" else ("anthropic",)
    done = agent(place, *words, "login", *provider, stdin=KEY)
    assert done.code == 0, done.err
    assert stored(place) == {"anthropic": KEY}


def test_a_stored_key_is_used_and_no_command_gets_it(place: Place, lists: Lists) -> None:
    """The key reaches the provider, but neither the environment of a command nor anything that is written."""
    assert agent(place, "login", "anthropic", stdin=KEY).code == 0
    place.environment["DRAGOMAN_MODEL_LISTS"] = "off"
    with ProviderServer(text_answer("I am here")) as server:
        place.environment |= WIRES["anthropic"].variables(server.url)
        del place.environment["ANTHROPIC_API_KEY"]
        done = place.run("--output", "json", "--record", "r.jsonl", "hello")
        assert done.result["text"] == "I am here", done.err
        assert server.asked[0].headers["x-api-key"] == KEY
        command = (sys.executable, "-m", "dragoman", "agent", "--model", "scripted", "--no-client-terminal")
        shown = place.run("--allow", "*", "--output", "json", "run env\nsay {result}", "--", *command)
        assert "HOME=" in shown.result["text"]
        assert "ANTHROPIC_API_KEY" not in shown.result["text"]  # the name would also stand for a masked key
    written = [path for path in place.home.rglob("*") if path.is_file() and path != credentials(place)]
    assert [path for path in (*written, place.project / "r.jsonl") if KEY.encode() in path.read_bytes()] == []


def test_the_environment_comes_before_a_stored_key(place: Place, lists: Lists) -> None:
    assert agent(place, "login", "anthropic", stdin=KEY).code == 0
    with ProviderServer(text_answer("I am here")) as server:
        place.environment |= WIRES["anthropic"].variables(server.url)
        place.run("--model", WIRES["anthropic"].model, "hello")
        assert server.asked[0].headers["x-api-key"] == "a-key"


@pytest.mark.parametrize("form", ["text", "json", "events", "raw"])
def test_a_stored_key_is_masked_in_errors_outputs_and_recordings(place: Place, lists: Lists, form: str) -> None:
    assert agent(place, "login", "anthropic", stdin=KEY).code == 0
    with ProviderServer(refused(401, f"Incorrect API key provided: {KEY}.")) as server:
        place.environment |= WIRES["anthropic"].variables(server.url)
        del place.environment["ANTHROPIC_API_KEY"]
        done = place.run("--output", form, "--verbose", "--record", "r.jsonl", "hello")
        assert server.asked
    assert done.code == 7, done.err
    assert "Incorrect API key provided: [ANTHROPIC_API_KEY]" in done.err
    assert KEY not in done.err + done.out
    # A command that reads the file of the keys shows none either.
    shown = place.run("--model", "scripted", "--allow", "*", "--record", "s.jsonl", f"run cat {credentials(place)}")
    assert "[ANTHROPIC_API_KEY]" in shown.out + (place.project / "s.jsonl").read_text()
    written = [path for path in place.home.rglob("*") if path.is_file() and path != credentials(place)]
    recorded = [place.project / "r.jsonl", place.project / "s.jsonl"]
    leaks = [path for path in (*written, *recorded) if KEY.encode() in path.read_bytes()]
    assert [path.name for path in leaks if not path.name.startswith("sessions.db")] == []
    assert KEY not in shown.out + shown.err


def test_a_client_runs_the_login_in_its_terminal(place: Place, lists: Lists) -> None:
    """`dragoman login` is such a client: it adds the method's arguments to the command of the agent."""
    command = (sys.executable, "-m", "dragoman", "agent", "--model", "anthropic:claude-sonnet-5-5", "--mode", "plan")
    with at_terminal(place, "login", "login", "--", *command) as terminal:
        terminal.until("(it is not shown): ")
        terminal.type(f"{KEY}\n")
        assert terminal.wait() == 0, terminal.text
    assert stored(place) == {"anthropic": KEY}
