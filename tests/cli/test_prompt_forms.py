"""Forms and pages an agent asks about, answered at a real terminal."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from dragoman.client.elicitation import fields
from dragoman.client.elicitation.pages import inspect, is_web, open_in_browser
from dragoman.client.login import LoginMethod
from dragoman.schema import UNSET, Unknown, v1
from tests.cli.prompt_kit import ATTACKS, Screen, acts, screen

STRING = v1.StringPropertySchema
ONE = v1.StringPropertySchema(enum=["red", "green"])
TITLED = v1.StringPropertySchema(
    one_of=[v1.EnumOption("r", "Red"), v1.EnumOption("2", "Two"), v1.EnumOption("1", "One")]
)
MANY = v1.MultiSelectPropertySchema(v1.StringMultiSelectItems(["a", "b", "c"]))
TITLED_MANY = v1.MultiSelectPropertySchema(v1.TitledMultiSelectItems([v1.EnumOption("a", "Apples")]))


@pytest.mark.rule(309, 313)
@pytest.mark.parametrize(
    ("line", "schema", "value"),
    [
        ("hello ", STRING(), "hello "),
        ("a@b.example", STRING(format="email"), "a@b.example"),
        ("https://a.example/x?y=1", STRING(format="uri"), "https://a.example/x?y=1"),
        ("2026-02-28", STRING(format="date"), "2026-02-28"),
        ("2026-02-28T12:00:00Z", STRING(format="date-time"), "2026-02-28T12:00:00Z"),
        ("2026-02-28T12:00:00.5+02:00", STRING(format="date-time"), "2026-02-28T12:00:00.5+02:00"),
        ("anything", STRING(format="hostname"), "anything"),
        ("abc", STRING(min_length=3, max_length=3), "abc"),
        ("7", v1.IntegerPropertySchema(minimum=7, maximum=7), 7),
        (" -3 ", v1.IntegerPropertySchema(), -3),
        ("1.5", v1.NumberPropertySchema(minimum=1, maximum=2), 1.5),
        ("3", v1.NumberPropertySchema(), 3),
        ("1e3", v1.NumberPropertySchema(), 1000.0),
        ("y", v1.BooleanPropertySchema(), True),
        ("No", v1.BooleanPropertySchema(), False),
        ("2", ONE, "green"),
        ("red", ONE, "red"),
        ("2", TITLED, "2"),
        ("3", TITLED, "1"),
        ("Red", TITLED, "r"),
        ("1, 3", MANY, ["a", "c"]),
        ("3 3 a", MANY, ["c", "a"]),
        ("-", MANY, []),
        ("1", TITLED_MANY, ["a"]),
    ],
)
def test_a_typed_line_becomes_the_value_its_field_wants(line: str, schema: Any, value: object) -> None:
    read = fields.read(line, schema)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.rule(309, 313)
@pytest.mark.parametrize(
    ("line", "schema", "reason"),
    [
        ("a.example", STRING(format="email"), "e-mail"),
        ("a@b@c", STRING(format="email"), "e-mail"),
        ("no address", STRING(format="uri"), "address"),
        ("/relative", STRING(format="uri"), "address"),
        ("2026-02-31", STRING(format="date"), "date"),
        ("20260228", STRING(format="date"), "date"),
        ("2026-02-28T12:00:00", STRING(format="date-time"), "time"),
        ("2026-02-28", STRING(format="date-time"), "time"),
        ("ab", STRING(min_length=3), "at least 3"),
        ("abcd", STRING(max_length=3), "at most 3"),
        ("1.5", v1.IntegerPropertySchema(), "whole number"),
        ("x", v1.IntegerPropertySchema(), "whole number"),
        ("6", v1.IntegerPropertySchema(minimum=7), "less than 7"),
        ("8", v1.IntegerPropertySchema(maximum=7), "more than 7"),
        ("9223372036854775808", v1.IntegerPropertySchema(), "too large"),
        ("nan", v1.NumberPropertySchema(), "not a number"),
        ("inf", v1.NumberPropertySchema(), "not a number"),
        ("1_0", v1.NumberPropertySchema(), "not a number"),
        ("0.5", v1.NumberPropertySchema(minimum=1), "less than 1"),
        ("maybe", v1.BooleanPropertySchema(), "neither y nor n"),
        ("1", v1.BooleanPropertySchema(), "neither y nor n"),
        ("3", ONE, "1 to 2"),
        ("0", ONE, "1 to 2"),
        ("blue", ONE, "1 to 2"),
        ("1 4", MANY, "1 to 3"),
        ("1", v1.MultiSelectPropertySchema(MANY.items, min_items=2), "at least 2"),
        ("1 2", v1.MultiSelectPropertySchema(MANY.items, max_items=1), "at most 1"),
    ],
)
def test_a_line_that_does_not_fit_is_refused_with_the_reason(line: str, schema: Any, reason: str) -> None:
    with pytest.raises(fields.FieldError, match=reason):
        fields.read(line, schema)


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        (STRING(default="x"), "x"),
        (STRING(default="too long", max_length=3), None),
        (STRING(), None),
        (STRING(enum=["a"], default="b"), None),
        (v1.BooleanPropertySchema(default=False), False),
        (v1.IntegerPropertySchema(default=3, maximum=2), None),
        (v1.MultiSelectPropertySchema(MANY.items, default=["a", "b"]), ["a", "b"]),
        (v1.MultiSelectPropertySchema(MANY.items, default=["z"]), None),
    ],
)
def test_a_default_counts_only_if_it_keeps_its_own_limits(schema: Any, default: object) -> None:
    assert fields.default_of(schema) == default


def test_a_pattern_that_takes_too_long_is_given_up() -> None:
    started = time.monotonic()
    assert fields.fits_pattern("a" * 40 + "!", r"^(a+)+$") is None
    assert time.monotonic() - started < 10
    assert fields.fits_pattern("abc", r"^[a-c]+$") is True
    assert fields.fits_pattern("abd", r"^[a-c]+$") is False
    assert fields.fits_pattern("abc", r"(unclosed") is None


def form(required: list[str] | None = None, message: str = "Who are you?", **properties: Any) -> v1.ElicitationFormMode:
    schema = v1.ElicitationSchema(properties=properties, required=required or UNSET)
    return v1.ElicitationFormMode(message, schema, session_id="s")


async def answer(request: v1.ElicitationFormMode, *lines: str) -> tuple[Any, Screen]:
    """Types one line after each prompt; returns the outcome and the screen."""
    async with screen() as terminal:
        asked = asyncio.create_task(terminal.prompt().form(request, None))
        for line in lines:
            await terminal.until_input_is_awaited()
            terminal.type(line)
        outcome = await asked
        await terminal.everything()
        return outcome, terminal


@pytest.mark.rule(306, 307, 309, 312)
async def test_a_form_is_asked_field_by_field_and_reviewed_before_it_is_sent() -> None:
    request = form(
        ["name"],
        name=STRING(title="Name", min_length=1),
        colour=STRING(title="Colour", enum=["red", "green"], default="red"),
        age=v1.IntegerPropertySchema(minimum=0),
        fruit=MANY,
        subscribe=v1.BooleanPropertySchema(default=False),
    )
    outcome, terminal = await answer(
        request, "\n", "Ada\n", "2\n", "x\n", "36\n", "1 2\n", "\n", "1\n", "Ada L.\n", "y\n"
    )
    assert outcome == v1.AcceptElicitation(
        {"name": "Ada L.", "colour": "green", "age": 36, "fruit": ["a", "b"], "subscribe": False}
    )
    assert "gemini asks you to fill in a form" in terminal.text
    assert "Who are you?" in terminal.text
    assert "x is not a whole number" in terminal.text
    assert "to be sent to gemini" in terminal.text


@pytest.mark.rule(309)
async def test_enter_takes_the_default_and_leaves_out_what_is_optional() -> None:
    request = form(["a"], a=STRING(default="x"), b=STRING(), c=STRING(default="y"))
    outcome, _ = await answer(request, "\n", "\n", "\n", "-\n", "y\n")
    assert outcome == v1.AcceptElicitation({"a": "x"})


async def test_a_needed_field_is_asked_again_until_it_has_a_value() -> None:
    outcome, terminal = await answer(form(["a"], a=STRING()), "\n", "\n", "\n", "now\n", "y\n")
    assert outcome == v1.AcceptElicitation({"a": "now"})
    assert terminal.text.count("this field is required") == 2


async def test_a_value_must_match_the_pattern() -> None:
    outcome, terminal = await answer(form(["a"], a=STRING(pattern="^[0-9]+$")), "\n", "abc\n", "12\n", "y\n")
    assert outcome == v1.AcceptElicitation({"a": "12"})
    assert "abc does not match" in terminal.text


@pytest.mark.rule(306, 312)
@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (["d\n"], v1.DeclineElicitation()),
        (["c\n"], v1.CancelElicitation()),
        (["\x04"], v1.CancelElicitation()),
        (["\n", "\x04"], v1.CancelElicitation()),
        (["\n", "x\n", "d\n"], v1.DeclineElicitation()),
        (["\n", "x\n", "c\n"], v1.CancelElicitation()),
        (["\n", "x\n", "\n", "\x04"], v1.CancelElicitation()),
        (["yes\n", "9\n", "d\n"], v1.DeclineElicitation()),
    ],
)
async def test_decline_and_cancel_are_two_answers_at_every_step(lines: list[str], outcome: object) -> None:
    assert (await answer(form(["a"], a=STRING()), *lines))[0] == outcome


@pytest.mark.rule(307)
async def test_enter_alone_sends_nothing_at_the_review() -> None:
    outcome, terminal = await answer(form(a=STRING()), "\n", "x\n", "\n", "\n", "c\n")
    assert outcome == v1.CancelElicitation()
    assert terminal.text.count("to be sent") == 3


async def test_a_form_without_fields_is_accepted_only_by_a_yes() -> None:
    assert (await answer(form(), "\n", "y\n"))[0] == v1.AcceptElicitation({})


async def test_a_needed_field_of_an_unknown_kind_cancels_and_an_optional_one_is_passed_over() -> None:
    strange = Unknown("file", {"type": "file"})
    assert (await answer(form(["a"], a=strange)))[0] == v1.CancelElicitation()
    assert (await answer(form(["b"], a=strange, b=STRING()), "\n", "x\n", "y\n"))[0] == v1.AcceptElicitation({"b": "x"})


@pytest.mark.rule(311)
@pytest.mark.parametrize("name", ["password", "api_key", "apiKey", "client_secret", "accessToken", "pin"])
async def test_a_field_that_looks_like_a_secret_has_a_warning(name: str) -> None:
    _, terminal = await answer(form(None, "Hello", **{name: STRING()}), "\n", "\x04")
    assert "this looks like a secret" in terminal.text


@pytest.mark.parametrize("name", ["name", "pinned", "tokens_per_line", "passage"])
def test_other_fields_have_no_warning(name: str) -> None:
    assert not fields.is_secret(name, STRING())


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_nothing_a_form_says_acts_on_the_terminal(attack: str) -> None:
    option = v1.EnumOption(attack, attack, description=attack)
    schema = v1.ElicitationSchema(
        title=attack,
        description=attack,
        properties={attack: STRING(title=attack, description=attack, one_of=[option], default=attack, pattern=attack)},
    )
    request = v1.ElicitationFormMode(attack, schema, session_id="s")
    async with screen() as terminal:
        user = terminal.prompt()
        asked = asyncio.create_task(user.form(request, None))
        for line in ("\n", "\x04"):
            await terminal.until_input_is_awaited()
            terminal.type(line)
        assert await asked == v1.CancelElicitation()
        await terminal.everything()
        assert acts(terminal.text) == set()
        assert not any(line.startswith("  1 y") for line in terminal.text.split("\n"))


def page(url: str, message: str = "Log in") -> v1.ElicitationUrlMode:
    return v1.ElicitationUrlMode(message, "visit-1", url, session_id="s")


class Browser:
    """A browser that only remembers."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def __call__(self, url: str) -> bool:
        self.opened.append(url)
        return True


@pytest.mark.rule(308)
@pytest.mark.parametrize(
    ("keys", "outcome", "is_opened"),
    [
        (["y\n"], v1.AcceptElicitation(), True),
        (["\n", "n\n", "yes\n", "d\n"], v1.DeclineElicitation(), False),
        (["c\n"], v1.CancelElicitation(), False),
        (["\x04"], v1.CancelElicitation(), False),
    ],
)
async def test_a_page_is_opened_only_after_a_yes(keys: list[str], outcome: object, is_opened: bool) -> None:
    browser, url = Browser(), "https://login.example.org:8443/start?state=1#x"
    async with screen() as terminal:
        asked = asyncio.create_task(terminal.prompt(open_page=browser).url(page(url), None))
        for key in keys:
            seen = await terminal.until_input_is_awaited()
            assert browser.opened == []
            terminal.type(key)
        assert await asked == outcome
        assert url in terminal.text
        assert "host   login.example.org:8443" in terminal.text
        assert seen
    assert browser.opened == [url] * is_opened


@pytest.mark.rule(308, 323)
@pytest.mark.parametrize(
    ("url", "host", "warning"),
    [
        ("https://example.org/", "example.org", ""),
        ("http://example.org/", "example.org", "not encrypted"),
        ("https://github.com@evil.example/", "evil.example", "look like another host"),
        ("https://github.com:pw@evil.example/", "evil.example", "look like another host"),
        ("https://xn--pple-43d.com/", "xn--pple-43d.com", "look like other letters"),
        ("https://аpple.com/", "аpple.com", "look like other letters"),
        ("https://127.0.0.1:8080/", "127.0.0.1:8080", "an IP address"),
        ("https://[::1]/", "::1", "an IP address"),
    ],
)
def test_the_real_host_is_shown_with_a_warning_if_it_could_mislead(url: str, host: str, warning: str) -> None:
    found, warnings = inspect(url)
    assert found == host
    assert (warnings == []) is (warning == "")
    assert warning in " ".join(warnings)


@pytest.mark.rule(308)
@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "vscode://x/y",
        "https:///no-host",
        "https://a.example\\@b.example/",
        "https://a.example/\x1b[31m",
        "https://a.example/\u202e",
        "https://a.example/ b",
        "-https://a.example/",
        "https://[bad/",
        "",
    ],
)
async def test_an_address_that_is_not_a_web_page_is_never_opened(url: str) -> None:
    assert not is_web(url)
    browser = Browser()
    async with screen() as terminal:
        assert await terminal.prompt(open_page=browser).url(page(url), None) == v1.CancelElicitation()
        await terminal.until("cancelled")
        await terminal.everything()
        assert acts(terminal.text) == set()
    assert browser.opened == []


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
async def test_nothing_a_page_request_says_acts_on_the_terminal(attack: str) -> None:
    async with screen() as terminal:
        request = page(f"https://a.example/{attack}", attack)
        asked = asyncio.create_task(terminal.prompt(open_page=Browser()).url(request, None))
        if is_web(request.url):
            await terminal.until_input_is_awaited()
            terminal.type("\x04")
        assert await asked == v1.CancelElicitation()
        await terminal.everything()
        assert acts(terminal.text) == set()


async def test_without_a_browser_the_user_is_asked_to_open_the_page() -> None:
    async with screen() as terminal:
        asked = asyncio.create_task(terminal.prompt(open_page=lambda url: False).url(page("https://a.example/"), None))
        await terminal.until_input_is_awaited()
        terminal.type("y\n")
        assert await asked == v1.AcceptElicitation()
        await terminal.until("open the address above yourself")


@pytest.mark.rule(322)
def test_the_users_browser_gets_the_address_and_none_of_our_streams(
    tmp_path: Any, monkeypatch: Any, capfd: Any
) -> None:
    browser = tmp_path / "browser"
    seen = tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho noise; echo noise >&2; echo "$1" > {seen}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    assert open_in_browser("https://a.example/?x=1&y=2")
    assert seen.read_text() == "https://a.example/?x=1&y=2\n"
    assert capfd.readouterr() == ("", "")


def test_without_a_display_no_browser_takes_the_terminal_over(monkeypatch: Any) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert not open_in_browser("https://a.example/")


AGENT_LOGIN = LoginMethod("key", "API key", "agent", "Reads the key from your settings")
TERMINAL_LOGIN = LoginMethod("term", "Log in here", "terminal", "", ("agent", "login", "a b"), {"X": "\x1b[1m"})


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [(["2\n"], TERMINAL_LOGIN), (["\n", "0\n", "3\n", "1\n"], AGENT_LOGIN), (["c\n"], None), (["\x04"], None)],
)
async def test_a_way_to_log_in_is_chosen_by_its_number(keys: list[str], chosen: object) -> None:
    async with screen() as terminal:
        asked = asyncio.create_task(terminal.prompt().choose_login([AGENT_LOGIN, TERMINAL_LOGIN]))
        for key in keys:
            await terminal.until_input_is_awaited()
            terminal.type(key)
        assert await asked == chosen
        assert "runs here: agent login 'a b'" in terminal.text
        assert "X=$'\\e[1m'" in terminal.text
