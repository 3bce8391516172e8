"""The limits that pages state are those of the program, so that a change of one changes the sentence."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("textual")

from dragoman.builtin.context import instruction_changes
from dragoman.builtin.hooks import session_hooks
from dragoman.builtin.mcp import connection, inbound, prompting, resources, session_side
from dragoman.builtin.mcp.server import Waits
from dragoman.builtin.skills import files as skill_files
from dragoman.builtin.skills import skill
from dragoman.builtin.subagents import files as agent_files
from dragoman.builtin.subagents import run, subagents
from dragoman.builtin.tools import deferral
from dragoman.foreign import files as foreign_files
from dragoman.proxy.audit import files as audit_files
from dragoman.proxy.audit import log as audit_log
from dragoman.settings import hooks, ui
from dragoman.tui import attachments, clipboard, drafts, history, values
from dragoman.tui.inline import terminal
from dragoman.tui.lines import client
from dragoman.tui.screen import app
from dragoman.tui.terminal import notifications
from tests.project.sources import ROOT

WORDS = {2: "two", 3: "three", 4: "four", 6: "six", 8: "eight", 10: "ten"}
PAUSES = [f"{seconds:g}" for seconds in Waits().again_seconds]
VARIABLES = ", ".join(f"`{name}`" for name in connection.INHERITED_VARIABLES)

SENTENCES = [
    ("guard", f"are synced at once, other records within {audit_log._COLLECT_SECONDS * 1000:.0f} ms"),
    ("guard", f"A new file begins each day and at {audit_log._MOST_BYTES >> 20} MB"),
    ("guard", f"holds its lock for more than {audit_files._LOCK_SECONDS:.0f} seconds"),
    ("agent", f"At most {skill_files.MOST_SKILLS} skills of {skill_files._LARGEST_BYTES >> 10} KB each are read"),
    ("agent", f"single hyphens, at most {skill.NAME_CHARACTERS} characters)"),
    ("agent", f"its new text up to {instruction_changes.FULL_CHARACTERS:,} characters"),
    ("agent", f"run at the same time, at most {WORDS[subagents.MOST_PARALLEL]}"),
    ("agent", f"Subagents may start others, {WORDS[subagents.MOST_DEPTH]} levels deep"),
    ("agent", f"model calls of one run, 1 to {agent_files.MOST_STEPS}; {run.STEPS} by default"),
    ("agent", f"the turn goes on with the reason, {WORDS[session_hooks._MOST_STOPS]} times at most"),
    ("agent", f"its `timeout` ({hooks.DEFAULT_SECONDS:.0f} seconds if not set)"),
    ("agent", f"more than {deferral.MOST_TOKENS:,} tokens, or a {({0.1: 'tenth'})[deferral.MOST_SHARE]} of"),
    ("mcp", f"It gets {VARIABLES} and the variables"),
    ("mcp", f"the first prompt waits for them for {Waits().turn_seconds:.0f} seconds"),
    ("mcp", f"started again after {', '.join(PAUSES[:-1])} and {PAUSES[-1]} seconds"),
    (
        "mcp",
        f"up to {WORDS[resources.MOST_MENTIONS]} of them with {resources.MENTION_CHARACTERS:,} characters each",
    ),
    ("mcp", f"cannot be read within {prompting.LONGEST_SECONDS:.0f} seconds"),
    ("mcp", f"warning and above are shown, {WORDS[inbound.MOST_NOTES]} per connection"),
    ("mcp", f"at most {session_side.MOST_TOKENS:,} tokens, at most {session_side.MOST_SAMPLES} times per server"),
    (
        "coming-from",
        f"more than {foreign_files.LARGEST_TEXT >> 10} KB (settings: {foreign_files.LARGEST_SETTINGS >> 20} MB)",
    ),
    ("terminal", f"read every {WORDS[int(app._LIST_SECONDS)]} seconds"),
    ("terminal", f"1 to {ui.LARGEST_PAINTS}; by default {app._PAINTS}, and {app._REMOTE_PAINTS} over SSH"),
    ("terminal", f"painted at most {app._PAINTS} times a second, over SSH {app._REMOTE_PAINTS} times"),
    ("terminal", f"at most {WORDS[terminal.LIVE_LINES]} live lines"),
    ("terminal", f"An answer within {values.SETTLE_SECONDS} seconds after the question was printed"),
    ("terminal", f"painted, or within {values.SETTLE_SECONDS} seconds after, is not an answer"),
    ("terminal", f"if nothing follows it for {values.HOLD_SECONDS} seconds it is taken out again and answers"),
    ("terminal", f"came for {client._BEAT_SECONDS:.0f} seconds says so once in {client._BEAT_SECONDS:.0f} seconds"),
    ("terminal", f"At most every {WORDS[int(notifications.BETWEEN_SECONDS)]} seconds there is a notification"),
    ("terminal", f"a text file of up to {attachments.EMBEDDED_BYTES >> 10} KB"),
    ("terminal", f"(PNG, JPEG, GIF, WebP, up to {attachments.IMAGE_BYTES >> 20} MB)"),
    (
        "terminal",
        f"more than {attachments.LINES_INLINE} lines or {attachments.CHARACTERS_INLINE:,} characters become",
    ),
    ("terminal", f"the last {history.MOST_ENTRIES:,} texts"),
    ("terminal", f"A draft is written {drafts.QUIET_SECONDS} seconds after"),
    ("terminal", f"none takes more than {clipboard.LARGEST_BYTES >> 10} KB"),
]


@pytest.mark.parametrize(("page", "sentence"), SENTENCES, ids=lambda text: text[:60])
def test_a_page_states_the_limit_that_holds(page: str, sentence: str) -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / f"{page}.md").read_text())
    assert sentence in text
