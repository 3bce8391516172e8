"""Several sessions: the list to choose from, the column, going to and fro, and those that need the user elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

pytest.importorskip("textual")

from dragoman.host.methods.table import METHODS
from dragoman.schema import v1
from dragoman.state import fold
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.local_host import session_rows
from dragoman.tui.local_host.session_rows import WatchedRows
from dragoman.tui.screen import app as app_module
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.sessions import sessions, surroundings
from dragoman.tui.screen.sessions.attached import MOST_ATTACHED
from dragoman.tui.screen.sessions.surroundings import ListedSessions
from dragoman.tui.screen.start import ScreenStart
from dragoman.tui.start.preferences import agent_key
from dragoman.tui.values import AskedQuestion, ListedSession, short_agent
from dragoman.view.rails import ASCII
from tests.tui.grids import check_grid, grid
from tests.tui.here import SCRIPTED, ScreenHere, UserHere
from tests.tui.opened import FOLDER, NOW, opened, painted, row

EVIL = "\x1b]0;evil\x07\x1b[2J\x9b31m\u202e"
ROWS = [
    row("a", "idle", title="explain the cache", agent="built-in", minutes=1500, ended="end_turn"),
    row(
        "b",
        "running",
        title="port CLI to argparse",
        agent="codex",
        minutes=11,
        cost="$1.10",
        steps_done=3,
        steps_total=9,
    ),
    row("c", "waiting", title="fix importer off-by-one", cost="$0.42", questions=2),
    row("d", "idle", title="upgrade pytest", agent="gemini", minutes=2900, ended="cancelled"),
    row("e", "idle", title="release notes", minutes=4400, ended="error", error="the agent ended: out of memory"),
    row("f", "running", title="docs rewrite", folder="/home/user/docs", cost="$0.20"),
    row("g", "idle", title="old work elsewhere", folder="/home/user/other"),
    row("h", "closed", title="closed long ago"),
]


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (40, 10)])
async def test_the_list_shows_what_needs_the_user_first(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async with opened(monkeypatch, size, rows=ROWS) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause()
        check_grid("sessions", app)
        await pilot.press("ctrl+a")
        await pilot.pause()
        assert any("old work" in line for line in grid(app)) or size[1] < 24


async def test_every_letter_filters_and_none_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("end_session", "fork_session"):
        monkeypatch.setattr(sessions, name, lambda row: pytest.fail("a letter acted"))
    async with opened(monkeypatch, rows=ROWS) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press(*"codex")
        await pilot.pause()
        shown = grid(app)
        assert "port CLI" in shown[1]
        assert shown[2] == ""
        assert "filter: codex_" in shown[0]
        for letter in "nfdxa":
            await pilot.press("ctrl+u", letter)
            await pilot.pause()
            assert f"filter: {letter}_" in grid(app)[0]
        await pilot.press("ctrl+u", *"fix the bug")
        await pilot.pause()
        assert "nothing is like that" in grid(app)[1]
        await pilot.press("enter", "ctrl+u", "slash", *"fix")
        await pilot.pause()
        assert "fix importer" in grid(app)[1]
        await pilot.press("enter")
        await pilot.pause()
        assert app.conversation.session_id == "c"


async def test_a_session_is_ended_only_after_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(sessions, "end_session", lambda row: ended.append(row.session_id))
    async with opened(monkeypatch, rows=ROWS) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press("ctrl+x")
        await pilot.pause()
        assert "end fix importer off-by-one" in grid(app)[-1]
        await pilot.press("enter")
        assert ended == []
        await pilot.press("ctrl+x", "y")
        async with asyncio.timeout(10):
            while not ended:
                await pilot.pause()
        assert ended == ["c"]


async def test_a_conversation_stays_attached_with_its_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, rows=ROWS) as (app, pilot):
        first = app.conversation
        await app.refresh_rows()
        await pilot.press(*"a draft")
        app.show_session(ROWS[1])
        await pilot.pause()
        assert app.query_one(PromptInput).text == ""
        assert app.conversation is not first
        await pilot.press(*"other")
        app.show_session(row("new"))
        assert app.conversation is first, "it was not loaded again"
        assert app.query_one(PromptInput).text == "a draft"
        app.show_session(ROWS[1])
        assert app.query_one(PromptInput).text == "other"
        await pilot.press("alt+right")
        await pilot.pause()
        assert app.conversation.session_id == "c"
        await pilot.press("alt+left")
        await pilot.pause()
        assert app.conversation.session_id == "b"


async def test_only_a_few_conversations_stay_attached_and_quiet_ones_leave_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[str | None] = []

    async def leave(self: HostedConversation) -> None:
        left.append(self.session_id)

    async with opened(monkeypatch, rows=ROWS) as (app, pilot):
        monkeypatch.setattr(HostedConversation, "leave", leave)
        await pilot.pause()
        app.conversation.is_foreign_turn = True  # the first one works
        for number in range(MOST_ATTACHED):
            app.show_session(row(f"s{number}"))
        await pilot.pause()
        assert left == ["s0"]
        assert app.attached.find("new") is not None


async def test_a_session_in_the_background_that_needs_the_user_is_seen_and_rings_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rung: list[str] = []
    async with opened(monkeypatch, rows=ROWS) as (app, pilot):
        app.around.notifier._write = rung.append
        for _ in range(3):
            await app.around.look_at_sessions()
        await painted(app, pilot)
        assert rung.count("\x07") == 1
        assert "fix importer off-by-one needs you (Ctrl+P)" in grid(app)[20]
        assert "◆ 1 other needs you" in grid(app)[20]
        app.show_session(ROWS[1])
        attached = app.attached.shown
        app.show_session(ROWS[0])
        request = v1.RequestPermissionRequest(session_id="b", tool_call=v1.ToolCallPatch("1", title="x"), options=[])
        asked = AskedQuestion("q", request, 0.0)
        attached.conversation.phase = "ready"
        attached.conversation.questions.append(asked)
        attached.asked(asked)
        attached.asked(asked)
        assert rung.count("\x07") == 2
        await pilot.pause()
        await painted(app, pilot)
        assert "2 others need you" in grid(app)[20]


async def test_what_a_hidden_conversation_reports_is_kept_until_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, rows=ROWS) as (app, pilot):
        app.show_session(ROWS[1])
        hidden = app.attached.shown
        app.show_session(ROWS[0])
        seen: list[object] = []
        monkeypatch.setattr(type(app), "form", lambda self, form: seen.append(form))
        form, gone = object(), object()
        hidden.form(form)  # type: ignore[arg-type]
        hidden.form(gone)  # type: ignore[arg-type]
        hidden.form_withdrawn(gone)  # type: ignore[arg-type]
        assert seen == []
        app.show_session(ROWS[1])
        assert seen == [form]
        await pilot.pause()


async def test_columns_without_contents_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, (160, 50), rows=[]) as (app, pilot):
        await app.refresh_rows()
        await painted(app, pilot)
        assert [app.query_one(name).display for name in ("#left", "#right")] == [False, False]
        fold(app.conversation.state, v1.Plan([v1.PlanEntry("read importer", "high", "in_progress")]))
        await painted(app, pilot)
        assert [app.query_one(name).display for name in ("#left", "#right")] == [False, True]
        assert "plan 0/1" in grid(app)[0]


@pytest.mark.parametrize("size", [(100, 30), (160, 50)])
async def test_the_columns_of_a_wide_screen(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async with opened(monkeypatch, size, rows=ROWS) as (app, pilot):
        app.show_session(ROWS[1])
        await app.refresh_rows()
        state = app.conversation.state
        await app.around.look_at_branch()
        await pilot.pause()
        for update in (
            v1.Plan([v1.PlanEntry("read importer", "high", "completed"), v1.PlanEntry("run", "high", "in_progress")]),
            v1.ToolCall("1", "edit", status="completed", content=[v1.Diff("/p/importer.py", "a\nb\n", old_text="a\n")]),
            v1.ToolCall("2", "edit", status="completed", content=[v1.Diff("/p/importer.py", "a\n", old_text="a\nb\n")]),
            v1.ToolCall("3", "write", status="completed", content=[v1.Diff("/p/test_new.py", "a\n")]),
            v1.UsageUpdate(size=100, used=38, cost=v1.Cost(amount=0.42, currency="USD")),
        ):
            fold(state, update)
        await painted(app, pilot)
        check_grid("columns", app)
        await pilot.press("f2")
        await painted(app, pilot)
        assert not grid(app)[0].startswith(" sessions")
        await pilot.resize_terminal(40, 10)
        await painted(app, pilot)
        assert len(grid(app)) == 10
        await pilot.press("f2")
        for width, height, has_columns in ((160, 50, True), (80, 24, False), (160, 50, True)):
            await pilot.resize_terminal(width, height)
            async with asyncio.timeout(10):
                while (grid(app)[0][:9] == " sessions") is not has_columns:
                    await painted(app, pilot)
            await painted(app, pilot)
            lines = grid(app)
            assert app.query_one("#left").display is has_columns
            rule = next(line for line in lines if "────" in line)
            assert rule.count("─") == (110 if has_columns else 80), "the lines have the new width"


async def test_a_conversation_that_failed_leads_to_the_sessions_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, rows=[row("b", title="b")]) as (app, pilot):
        app.conversation.phase, app.conversation.session_id = "failed", None
        assert [each.session_id for each in await app.refresh_rows()] == ["b"]
        await pilot.press("alt+right")
        await pilot.pause()
        assert app.conversation.session_id == "b"


async def test_the_list_comes_first_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, rows=ROWS, start=ScreenStart(chooses=True)) as (app, pilot):
        async with asyncio.timeout(10):
            while len(app.screen_stack) == 1:
                await pilot.pause()
        assert grid(app)[0].startswith(" dragoman · /home/user/project")
        await pilot.press("ctrl+n")
        await pilot.pause()
        assert (app.conversation.session_id, app.conversation.phase) == ("new", "ready")


async def test_the_client_is_left_from_the_list_of_sessions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, rows=ROWS, start=ScreenStart(chooses=True)) as (app, pilot):
        async with asyncio.timeout(10):
            while len(app.screen_stack) == 1:
                await pilot.pause()
        await pilot.press("ctrl+d")
        await pilot.pause()
        assert app._exit


@pytest.mark.parametrize("rows", [[], [row("x", folder="/elsewhere")], [row("y", "closed")]])
async def test_without_an_earlier_session_a_prompt_is_there_at_once(
    monkeypatch: pytest.MonkeyPatch, rows: list[ListedSession]
) -> None:
    async with opened(monkeypatch, rows=rows, start=ScreenStart(chooses=True)) as (app, pilot):
        await pilot.press(*"hello", "enter")
        async with asyncio.timeout(10):
            while app.conversation.phase != "ready":
                await pilot.pause()
        assert len(app.screen_stack) == 1
        assert [prompt.text for prompt in app.conversation.prompts] == ["hello"]


async def test_text_that_was_sent_before_the_list_came_begins_a_new_session(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, rows=ROWS) as (app, pilot):
        _ = app.conversation.send("typed at once")
        await sessions.choose_first(app)
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_no_text_of_a_session_acts_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(EVIL, EVIL, title=EVIL, agent=EVIL, cost=EVIL, error=EVIL, ended="error", folder=f"/{EVIL}")]
    async with opened(monkeypatch, (160, 50), rows=rows) as (app, pilot):
        await app.around.look_at_sessions()
        monkeypatch.setattr(surroundings, "branch_of", lambda folder: EVIL)
        await app.around.look_at_branch()
        await painted(app, pilot)
        assert all(line.isprintable() for line in grid(app))
        await pilot.press("ctrl+p")
        await pilot.press("ctrl+a")
        await pilot.pause()
        assert all(line.isprintable() for line in grid(app))


async def test_ascii_has_no_other_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch, (160, 50), rows=ROWS, glyphs=ASCII) as (app, pilot):
        await app.refresh_rows()
        await painted(app, pilot)
        assert "\n".join(grid(app)).isascii()


def test_ages_are_words() -> None:
    ages = [row("x", minutes=minutes).updated_at for minutes in (0, 5, 90, 1500, 4400)]
    assert [sessions.shown_age(age, NOW) for age in ages] == ["just now", "5 min", "1 h", "yesterday", "3 days"]
    assert sessions.shown_age("nonsense") == ""


def test_rows_are_read_leniently() -> None:
    found = session_rows._row("1", FOLDER, 5, None, {"dragoman": {"cost": 3, "steps": "x", "ended": {"error": "boom"}}})
    assert (found.cost, found.steps_total, found.word, found.detail) == ("", 0, "failed", "boom")


async def test_the_selection_stays_with_its_session_while_the_list_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list(ROWS)
    async with opened(monkeypatch, rows=rows) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause()
        await pilot.press("down")
        picker = app.screen
        assert isinstance(picker, sessions.SessionPicker)
        assert picker.list.selected is not None
        assert picker.list.selected.value.session_id == "b"
        changed = [
            replace(each, state="idle", ended="end_turn", cost="$1.20") if each is ROWS[1] else each for each in rows
        ]
        app.rows_changed(changed)
        assert picker.list.selected.value.session_id == "b", "the next key would be for another session"


async def test_a_list_of_sessions_does_not_open_while_the_user_types(monkeypatch: pytest.MonkeyPatch) -> None:
    may_list = asyncio.Event()

    async def read(self: object) -> list[ListedSession]:
        await may_list.wait()
        return ROWS

    monkeypatch.setattr(ListedSessions, "read_before_start", read)
    async with opened(monkeypatch, rows=ROWS, start=ScreenStart(chooses=True)) as (app, pilot):
        await pilot.press("f", "i", "x")
        may_list.set()
        await pilot.pause()
        await painted(app, pilot)
        assert len(app.screen_stack) == 1
        await pilot.press("space", "y")
        assert app.query_one(PromptInput).text == "fix y"
        assert any("a new session; 2 sessions run, 1 asks you: Ctrl+P" in line for line in grid(app))


@pytest.mark.parametrize(
    ("agent", "word"),
    [
        ("claude", "claude"),
        ("dragoman --model scripted", "dragoman"),
        ("-- python3.11 -u /opt/my/agent.py --fast", "agent.py"),
        ("-- /usr/bin/goose acp", "goose"),
        ("-- node", "node"),
        ("--", "--"),
    ],
)
def test_an_agent_that_is_a_command_line_is_called_by_its_program(agent: str, word: str) -> None:
    assert short_agent(agent) == word
    key = agent_key(agent)
    assert key == (agent if agent.startswith("--") else word), "two programs do not share what is remembered"


async def test_a_session_is_named_after_its_first_prompt_and_one_that_was_never_used_is_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {"dragoman": {"prompt": "is it blue?", "ended": {"stopReason": "end_turn"}}}
    rows = [session_rows._row("1" * 26, FOLDER, None, None, asked), row("2" * 26)]
    async with opened(monkeypatch, rows=rows) as (app, pilot):
        await pilot.press("ctrl+p")
        await pilot.pause()
        lines = grid(app)
        assert any("is it blue?" in line for line in lines)
        assert not any("session 22222222" in line for line in lines)
        assert "1 of 1 here" in lines[0]
        await pilot.press("ctrl+a")
        assert any("session 22222222" in line for line in grid(app))


def asked_lists(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Note over which connection the whole list of sessions is asked for, each time."""
    asked: list[Any] = []
    read = session_rows.read_rows

    async def noted(remote: Any, most: int = 500) -> list[ListedSession]:
        if most == 500:
            asked.append(remote)
        return await read(remote, most)

    monkeypatch.setattr(session_rows, "read_rows", noted)
    return asked


def states(client: ScreenHere) -> dict[str, str]:
    return {row.shown_name: row.state for row in client.app.session_rows}


async def test_the_host_reports_its_sessions_and_is_not_asked_for_them(
    user: UserHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also behind a line that was cut: what happened meanwhile is there, and what happens from then on."""
    asked = asked_lists(monkeypatch)
    monkeypatch.setattr(app_module, "_LIST_SECONDS", 0.05)
    async with user.host_here() as host, user.screen(**SCRIPTED) as client:
        await client.wait_until(lambda: client.app.around.listed.is_watched, client.drawn)
        async with user.plain(**SCRIPTED) as other:
            other.type("run touch one")
            await client.until("run touch one needs you")
            assert states(client)["run touch one"] == "waiting"
            cut = client.app.conversation.remote
            assert cut is not None
            (watching,) = host.list_changes.clients_of("local")
            await watching.peer.close()
            await other.answer("y")
            await other.until("-- done")
            await client.wait_until(
                lambda: client.app.conversation.remote not in (None, cut) and states(client)["run touch one"] == "idle",
                client.drawn,
            )
            other.type("run touch two")
            await other.until("answer with ")
            await client.wait_until(lambda: states(client)["run touch one"] == "waiting", client.drawn)
            assert not {cut, client.app.conversation.remote} & set(asked)


async def test_a_host_that_does_not_report_its_sessions_is_asked_for_them(
    user: UserHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_lists(monkeypatch)
    monkeypatch.delitem(METHODS, "_dragoman/sessions/watch")
    monkeypatch.setattr(app_module, "_LIST_SECONDS", 0.05)
    async with user.host_here(), user.screen(**SCRIPTED) as client, user.plain(**SCRIPTED) as other:
        other.type("run touch one")
        await other.until("answer with ")
        await client.until("run touch one needs you")
        assert client.app.conversation.remote in asked


async def test_what_is_reported_while_a_long_list_is_read_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report may be older or newer than a page that is on its way, so that what was reported is read again."""
    rows = WatchedRows()
    sent: list[dict[str, Any]] = []

    class Remote:
        is_open = True

        async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
            sent.append(params)
            if method.endswith("unwatch"):
                return {}
            if "after" in params:
                assert params["after"] == "m.1"
                rows.take({"watchId": params["watchId"], "changed": [{"sessionId": "c", "cwd": "/", "title": "new"}]})
                return {"revision": "m.3", "sessions": [listed("b", "right")], "removed": [], "isPart": True}
            if "cursor" in params:
                rows.take({"watchId": params["watchId"], "changed": [listed("b", "stale")]})
                return {"revision": "m.2", "sessions": [listed("b", "page")]}
            return {"revision": "m.1", "sessions": [listed("a", "one")], "nextCursor": "2"}

    def listed(id: str, title: str) -> dict[str, Any]:
        return {"sessionId": id, "cwd": "/", "title": title, "_meta": {"dragoman": {"questions": [{}, {}]}}}

    remote: Any = Remote()
    await rows.start(remote)
    assert {row.session_id: row.title for row in rows.rows} == {"a": "one", "b": "right", "c": "new"}
    assert {row.questions for row in rows.rows} == {0, 2}
    assert sent[-1] == {"watchId": sent[0]["watchId"]}, "the first watch is ended"
    assert not rows.take({"watchId": sent[0]["watchId"], "removed": ["a"]}), "it may be older than the list"
    assert rows.take({"watchId": sent[-2]["watchId"], "removed": ["a"]})
    assert [row.session_id for row in rows.rows] == ["b", "c"]
