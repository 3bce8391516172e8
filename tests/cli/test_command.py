"""A verb's declaration: its words are read, its help is written, what follows `--` is left alone."""

from __future__ import annotations

import pytest

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption, help_text, parse, split_program


def run(call: CliCall) -> int:
    return exits.OK


PLAIN = CliCommand(run, "Does things.", options=(JSON,))
RICH = CliCommand(
    run,
    "Talks to an agent.",
    arguments=(Argument("prompt", "what to say"),),
    options=(CliOption("--output", "the form of the result", value="FORM", choices=("text", "json")), JSON),
    examples=("dragoman talk hello -- my-agent --acp",),
    takes_program=True,
)


@pytest.mark.parametrize(
    ("words", "own", "program"),
    [
        ([], [], None),
        (["a", "b"], ["a", "b"], None),
        (["--"], [], ()),
        (["a", "--", "x", "--", "--json"], ["a"], ("x", "--", "--json")),
    ],
)
def test_words_are_cut_at_the_first_double_dash(words: list[str], own: list[str], program: tuple[str, ...]) -> None:
    assert split_program(words) == (own, program)


def test_an_option_has_a_short_form_and_may_be_repeated() -> None:
    command = CliCommand(
        run,
        "Sets things.",
        arguments=(Argument("word", "what", is_optional=True),),
        options=(
            CliOption("--agent", "who", value="AGENT", short="-a"),
            CliOption("--set", "a setting", value="KEY=VALUE", is_repeatable=True),
            CliOption("--quiet", "says nothing", short="-q"),
        ),
    )
    given = parse("set", command, ["-a", "x", "--set", "a=1", "word", "--set", "b=2", "-q"]).given
    assert (given.agent, given.set, given.quiet, given.word) == ("x", ["a=1", "b=2"], True, "word")
    assert parse("set", command, []).given.set == []
    text = help_text("set", command)
    assert text.startswith("usage: dragoman set [-a AGENT] [--set KEY=VALUE]... [-q] [word]\n")
    assert "\n  -a, --agent AGENT  who\n" in text


def test_program_after_the_double_dash_arrives_verbatim() -> None:
    call = parse("talk", RICH, ["--output", "json", "hello", "--", "agent", "--json", "--help"])
    assert (call.given.output, call.given.prompt, call.given.json) == ("json", "hello", False)
    assert call.program == ("agent", "--json", "--help")


def test_options_may_follow_arguments_and_carry_their_value_behind_an_equals_sign() -> None:
    call = parse("talk", RICH, ["hello", "--output=text", "--json"])
    assert (call.given.output, call.given.prompt, call.given.json) == ("text", "hello", True)
    assert call.program is None


@pytest.mark.parametrize("words", [["--nope"], ["word"], ["--", "agent"], ["--jso"]])
def test_words_outside_the_declaration_are_refused(words: list[str]) -> None:
    with pytest.raises(exits.CliError) as caught:
        parse("plain", PLAIN, words)
    assert caught.value.exit_code == exits.USAGE
    assert caught.value.hint == "see dragoman plain --help"


def test_help_shows_usage_arguments_options_and_examples() -> None:
    assert (
        help_text("talk", RICH)
        == """\
usage: dragoman talk [--output FORM] [--json] prompt [-- PROGRAM...]

Talks to an agent.

arguments:
  prompt  what to say

options:
  --output FORM  the form of the result (text, json)
  --json         write one JSON document
  --help         show this help

examples:
  dragoman talk hello -- my-agent --acp
"""
    )


def test_help_is_wrapped_at_the_width_of_the_terminal() -> None:
    text = help_text("talk", RICH._replace(description="Talks to an agent, in as many words as it takes."), columns=40)
    assert max(map(len, text.replace("  dragoman talk hello -- my-agent --acp", "").splitlines())) <= 40
    assert "\n  --output FORM  the form of the result\n                 (text, json)\n" in text
    assert "Talks to an agent, in as many words as\nit takes.\n" in text


def test_a_list_in_a_description_stays_a_list_where_its_lines_are_too_long() -> None:
    description = (
        "Talks to an agent, in as many words as it takes.\nAnd more.\n"
        "  talk it        say something to the agent\n"
        "  be quiet then  say nothing at all, and wait for\n"
        "                 what comes\n"
        "\n"
        "The end."
    )
    text = help_text("talk", RICH._replace(description=description), columns=44)
    assert (
        """
Talks to an agent, in as many words as it
takes. And more.
  talk it        say something to the agent
  be quiet then  say nothing at all, and
                 wait for what comes

The end.
"""
        in text
    )
    assert f"\n{description}\n" in help_text("talk", RICH._replace(description=description), columns=80)
