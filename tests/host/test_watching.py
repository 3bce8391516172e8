"""Watching the list of sessions, and answering from it: what changes, how often, for whom, and what counts."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from dragoman.host.host import Visitor
from dragoman.host.methods import watching
from tests.host.kit import OURS, Client, OnTheWire, hosted
from tests.host.test_questions import ASK, END, FORMS, OPTIONS, begin

WATCH, CHANGED, ANSWER = "_dragoman/sessions/watch", "_dragoman/sessions/changed", "_dragoman/answer"
PAGE_FORMS: dict[str, Any] = {**OURS, **FORMS}
YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}
NO = {"outcome": {"outcome": "selected", "optionId": "no"}}


def own(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = row["_meta"]["dragoman"]
    return found


async def changed(line: Client, wanted: Any) -> dict[str, Any]:
    """The next row that a condition holds for."""
    while True:
        params = (await line.until(CHANGED))["params"]
        for row in params["changed"]:
            if wanted(own(row)):
                found: dict[str, Any] = row
                return found


async def removed(line: Client) -> list[str]:
    while not (gone := (await line.until(CHANGED))["params"]["removed"]):
        pass
    found: list[str] = gone
    return found


async def question_of(line: Client) -> dict[str, Any]:
    """The first question that a watching client gets."""
    found: dict[str, Any] = own(await changed(line, lambda row: row["questions"]))["questions"][0]
    return found


async def refusal(line: Client, method: str, /, **params: object) -> dict[str, Any]:
    _, answer = await line.answer_to(line.ask(method, **params))
    error: dict[str, Any] = answer["error"]
    return error


async def answered(line: Client, method: str, /, **params: object) -> Any:
    _, answer = await line.answer_to(line.ask(method, **params))
    return answer["result"]


async def test_a_client_that_is_attached_to_nothing_sees_what_sessions_do_need_and_cost(tmp_path: Path) -> None:
    source = OnTheWire()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/retry\n")
    async with hosted(source, clock=lambda: 1000.5) as host:
        page = await host.client(OURS)
        empty = await answered(page, WATCH)
        assert empty["sessions"] == []
        assert "nextCursor" not in empty
        line = await host.client(OURS)
        session = await line.open(str(tmp_path))
        first = await changed(page, lambda row: row["state"] == "idle")
        assert (first["sessionId"], first["cwd"], own(first)["agent"]) == (session, str(tmp_path), "test")
        assert (own(first)["turn"], own(first)["waiting"], own(first)["questions"]) == (None, [], [])
        assert own(first)["branch"] == "retry"
        line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        prompt = await source.agent.prompted()
        line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "then  this " + "x" * 300}])
        source.agent.update("usage_update", used=10, size=100, cost={"amount": 1.5, "currency": "USD"})
        source.agent.say("One line.\n\nThe last ")
        source.agent.say("line")
        row = own(await changed(page, lambda row: row["waiting"] and row.get("lastLine") == "The last line"))
        assert row["state"] == "running"
        assert row["turn"]["turn"] == 1
        assert row["turn"]["startedAt"] == 1_000_500
        assert row["context"] == {"used": 10, "size": 100}
        assert row["cost"]["amount"] == 1.5
        waiting = row["waiting"][0]
        assert waiting["text"].startswith("then this x")
        assert len(waiting["text"]) <= 200
        assert (waiting["who"], waiting["at"], waiting["steers"], waiting["isMine"]) == (
            "local",
            1_000_500,
            False,
            False,
        )
        source.agent.update("tool_call", toolCallId="t", title="Run  the tests", kind="execute")
        await changed(page, lambda row: row.get("lastLine") == "Run the tests")
        source.agent.fail(prompt, code=-32000, message="out of tokens")
        failed = own(await changed(page, lambda row: "error" in row))
        assert failed["error"] == {"message": "out of tokens"}
        assert failed["ended"] == {"error": "out of tokens"}
        prompt = await source.agent.prompted()
        source.agent.reply(prompt, END)
        done = own(await changed(page, lambda row: row["state"] == "idle"))
        assert "error" not in done
        assert done["turn"] is None
        assert done["lastLine"] == "Run the tests"
        listed = (await answered(page, "session/list"))["sessions"][0]
        assert own(listed) == {**done, "questions": 0, "head": own(listed)["head"]}, "one owner of the rows"
        await answered(await host.client(OURS), "session/delete", sessionId=session)
        assert await removed(page) == [session]


async def test_a_watch_has_filters_pages_and_goes_on_behind_a_revision(tmp_path: Path) -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line = await host.client(OURS)
        ids = [await line.open("/tmp") for _ in range(60)]
        page = await host.client(OURS)
        first = await answered(page, WATCH)
        second = await answered(page, WATCH, cursor=first["nextCursor"])
        assert [row["sessionId"] for row in first["sessions"] + second["sessions"]] == ids[::-1]
        assert "nextCursor" not in second
        assert len(first["sessions"]) == 50
        # What comes behind a revision are the changed rows, and ids that are gone.
        line.prompt(ids[0])
        prompt = await source.agents[0].prompted()
        moved = await changed(page, lambda row: row["state"] == "running")
        await host.leave(page)
        await answered(line, "session/delete", sessionId=ids[1])
        again = await host.client(OURS)
        part = await answered(again, WATCH, after=first["revision"])
        assert part["isPart"] is True
        assert [row["sessionId"] for row in part["sessions"]] == [ids[0]]
        assert part["removed"] == [ids[1]]
        assert moved["sessionId"] == ids[0]
        for wrong in ("0000.1", first["revision"].partition(".")[0] + ".999999", "", "x"):
            whole = await answered(again, WATCH, after=wrong)
            assert len(whole["sessions"]) == 50
            assert "isPart" not in whole
        # A filter by state: the session leaves the view when its state does not fit any more.
        running = await answered(again, WATCH, watchId="r", states=["running", "waiting"])
        assert [row["sessionId"] for row in running["sessions"]] == [ids[0]]
        assert "nextCursor" not in running
        assert (await answered(again, WATCH, watchId="n", cwd=str(tmp_path)))["sessions"] == []
        await answered(again, "_dragoman/sessions/unwatch")
        source.agents[0].reply(prompt, END)
        gone = (await again.until(CHANGED))["params"]
        assert (gone["watchId"], gone["removed"], gone["changed"]) == ("r", [ids[0]], [])
        for number in range(watching.MOST - 2):
            await answered(again, WATCH, watchId=str(number))
        assert (await refusal(again, WATCH, watchId="more"))["data"]["reason"] == "limit"
        assert (await refusal(again, WATCH, watchId="0", states="idle"))["code"] == -32602
        assert (await refusal(again, WATCH, watchId="0", cwd="here"))["code"] == -32602


async def test_many_changes_are_at_most_four_messages_a_second_and_cost_no_look_at_other_sessions() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line = await host.client(OURS)
        others = [await line.open("/tmp") for _ in range(20)]
        session = await line.open("/tmp")
        page = await host.client(OURS)
        await answered(page, WATCH)
        line.prompt(session)
        prompt = await source.agent.prompted()
        seen, began = set[str](), 0.0
        for number in range(5):
            for word in range(50):
                source.agent.say(f"word {number} {word}\n")
            params = (await page.until(CHANGED))["params"]
            began = began or monotonic()
            seen |= {row["sessionId"] for row in params["changed"]}
        assert monotonic() - began > 4 * watching.SECONDS * 0.95
        source.agent.reply(prompt, END)
        assert seen == {session}
        assert not seen & set(others)


async def test_sessions_of_other_users_are_neither_listed_nor_reported_nor_answered() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)
        page = await host.client(OURS)
        await answered(page, WATCH)
        stranger = await host.client(OURS, visitor=Visitor("eve"))
        assert (await answered(stranger, WATCH))["sessions"] == []
        asked.permission()
        question = await question_of(page)
        params = {"sessionId": asked.session, "questionId": question["questionId"], "digest": question["digest"]}
        error = await refusal(stranger, ANSWER, **params, **YES)
        assert error == await refusal(stranger, ANSWER, **{**params, "sessionId": "no-such-session"}, **YES)
        before = await stranger.everything()
        assert before == [], "nothing about it was sent"
        looks = await host.client(OURS, visitor=Visitor(rights=frozenset(("view",))))
        row = (await answered(looks, WATCH))["sessions"][0]
        seen = own(row)["questions"][0]
        assert "digest" not in seen
        assert "digest" not in seen["params"]["_meta"]["dragoman"]
        assert seen["params"]["options"] == OPTIONS
        assert (await refusal(looks, ANSWER, **params, **YES))["data"]["reason"] == "forbidden"
        assert await host.events(asked.session, "answer") == []
        await asked.end()


async def test_an_answer_from_the_list_counts_once_for_what_was_shown() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)
        page = await host.client({"_meta": {"dragoman": {"client": "page-1"}}})
        await answered(page, WATCH)
        looks = await host.client(OURS)  # attached to nothing
        await answered(looks, WATCH)
        elsewhere = await host.client(OURS)
        await answered(elsewhere, WATCH, cwd="/somewhere/else")
        agent_waits = asked.permission()
        question = await question_of(page)
        assert question["method"] == ASK
        assert question["sessionId"] == asked.session
        assert question["askedAt"] > 0
        mine = await asked.line.until(ASK)
        assert mine["params"]["_meta"]["dragoman"]["digest"] == question["digest"]
        assert question["params"]["_meta"]["dragoman"]["questionId"] == question["questionId"]
        params = {"sessionId": asked.session, "questionId": question["questionId"], "digest": question["digest"]}
        wrong = await refusal(page, ANSWER, **{**params, "digest": "0" * 64}, **YES)
        assert wrong["data"] == {"reason": "changed", "digest": question["digest"]}
        nothing: list[dict[str, Any]] = [
            {},
            {"outcome": {"outcome": "cancelled"}},
            {"outcome": {"outcome": "selected", "optionId": "all"}},
            {"action": "accept"},
        ]
        for none in nothing:
            assert (await refusal(page, ANSWER, **params, **none))["code"] == -32602
        assert (await refusal(page, ANSWER, sessionId=asked.session, **YES))["code"] == -32602
        assert await host.events(asked.session, "answer") == []
        # Two devices in one moment: one counts, the other is late.
        other = await host.client({"_meta": {"dragoman": {"client": "page-2"}}})
        one, two = page.ask(ANSWER, **params, **YES), other.ask(ANSWER, **params, **YES)
        assert (await page.answer_to(one))[1]["result"] == {"accepted": True}
        late = (await other.answer_to(two))[1]["error"]["data"]
        assert (late["reason"], late["option"], late["who"]) == ("answered", "yes", "local")
        assert late["at"] > 0
        assert await asked.agent.answer(agent_waits) == YES
        told = (await asked.line.until("_dragoman/answered"))["params"]
        assert (told["option"], told["who"], told["at"]) == ("yes", "local", late["at"])
        assert "from" not in told
        # Who only has it in a list hears it too, in front of the row without the question; other lists do not.
        heard = await looks.until("_dragoman/answered")
        assert heard["params"] == told
        await changed(looks, lambda row: not row["questions"])
        assert not [found for found in await elsewhere.everything() if found.get("method") == "_dragoman/answered"]
        # The same client sends it again, after its line broke; another choice of it does not count.
        await host.leave(page)
        back = await host.client({"_meta": {"dragoman": {"client": "page-1"}}})
        assert await answered(back, ANSWER, **params, **YES) == {"accepted": True}
        assert (await refusal(back, ANSWER, **params, **NO))["data"]["reason"] == "answered"
        assert [event["option"] for event in await host.events(asked.session, "answer")] == ["yes"]
        assert len(await host.events(asked.session, "late")) == 2
        # Withdrawn by the agent's end of the turn.
        asked.permission()
        await answered(back, WATCH)
        row = (await answered(back, WATCH))["sessions"][0]
        if not own(row)["questions"]:
            row = await changed(back, lambda row: row["questions"])
        asked.agent.reply(asked.prompt, END)
        withdrawn = (await looks.until("_dragoman/answered"))["params"]
        assert (withdrawn["questionId"], withdrawn["by"]) == (own(row)["questions"][0]["questionId"], "")
        await changed(back, lambda row: row["state"] == "idle")
        gone = {**params, **{name: own(row)["questions"][0][name] for name in ("questionId", "digest")}}
        assert (await refusal(back, ANSWER, **gone, **YES))["data"] == {"reason": "withdrawn"}
        assert (await refusal(back, ANSWER, **{**gone, "questionId": "q-none"}, **YES))["data"] == {
            "reason": "withdrawn"
        }


@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_a_form_waits_for_a_page_that_watches_and_is_answered_from_the_list(action: str) -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)  # attached, and cannot show forms
        page = await host.client(PAGE_FORMS)
        await answered(page, WATCH)
        waits = asked.form()
        question = await question_of(page)
        assert (question["kind"], question["title"]) == ("form", "Who?")
        params = {"sessionId": asked.session, "questionId": question["questionId"], "digest": question["digest"]}
        content = {"content": {"name": "Ada"}} if action == "accept" else {}
        assert (await refusal(page, ANSWER, **params, action="cancel"))["code"] == -32602
        assert await answered(page, ANSWER, **params, action=action, **content) == {"accepted": True}
        assert await asked.agent.answer(waits) == {"action": action, **content}
        assert await answered(page, ANSWER, **params, action=action, **content) == {"accepted": True}
        await asked.end()


async def test_an_answer_is_known_after_a_restart_of_the_host() -> None:
    source = OnTheWire()
    kind: dict[str, Any] = {"_meta": {"dragoman": {"client": "page-1"}}}
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)
        page = await host.client(kind)
        await answered(page, WATCH)
        waits = asked.permission()
        question = await question_of(page)
        params = {"sessionId": asked.session, "questionId": question["questionId"], "digest": question["digest"]}
        await answered(page, ANSWER, **params, **YES)
        await asked.agent.answer(waits)
        await asked.end()
        log = host.host.log
    async with hosted(OnTheWire(), log=log) as later:
        page, other = await later.client(kind), await later.client(OURS)
        assert await answered(page, ANSWER, **params, **YES) == {"accepted": True}
        assert (await refusal(other, ANSWER, **params, **YES))["data"]["option"] == "yes"
