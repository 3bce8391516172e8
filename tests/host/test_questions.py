"""Questions of agents: who is asked, whose answer counts, and what happens to the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.host.host import Visitor
from dragoman.host.services import HostServices
from dragoman.policy import parse_rule
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted

END = {"stopReason": "end_turn"}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
CALL = {"toolCallId": "t", "title": "work"}
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}
URLS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
ASK = "session/request_permission"


class Asked:
    """A session in the middle of a turn."""

    def __init__(self, source: OnTheWire, host: Hosted, line: Client, session: str, request: int) -> None:
        self.source = source
        self.host = host
        self.line = line
        self.session = session
        self.request = request

    @property
    def agent(self) -> Any:
        return self.source.agent

    def permission(self) -> int:
        id: int = self.agent.call(ASK, toolCall=CALL, options=OPTIONS)
        return id

    def form(self) -> int:
        id: int = self.agent.call("elicitation/create", mode="form", message="Who?", requestedSchema=SCHEMA)
        return id

    def url(self, id: str = "e") -> int:
        asked: int = self.agent.call(
            "elicitation/create", mode="url", message="Open", elicitationId=id, url="https://example.com/x"
        )
        return asked

    async def another(self, capabilities: dict[str, Any] | None = None, **options: Any) -> Client:
        line = await self.host.client(capabilities, **options)
        await line.resume(self.session)
        return line

    async def end(self) -> None:
        self.agent.reply(self.prompt, END)
        while (await self.line.next()).get("id") != self.request:
            pass

    prompt: dict[str, Any]


async def begin(host: Hosted, source: OnTheWire, capabilities: dict[str, Any] | None = None) -> Asked:
    line, session = await host.opened(capabilities)
    asked = Asked(source, host, line, session, line.prompt(session))
    asked.prompt = await source.agent.prompted()
    return asked


async def test_the_first_choice_wins_and_the_others_are_withdrawn_and_may_answer_late() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)
        other = await asked.another(OURS)
        question = asked.permission()
        mine, theirs = await asked.line.until(ASK), await other.until(ASK)
        assert mine["params"]["_meta"] == theirs["params"]["_meta"]
        assert isinstance(mine["params"]["_meta"]["dragoman"]["questionId"], str)
        other.answer_with(theirs, "no")
        assert await asked.agent.answer(question) == {"outcome": {"outcome": "selected", "optionId": "no"}}
        withdrawn = await asked.line.until("$/cancel_request")
        assert withdrawn["params"] == {"requestId": mine["id"]}
        told = (await asked.line.until("_dragoman/answered"))["params"]
        id = mine["params"]["_meta"]["dragoman"]["questionId"]
        assert (told["questionId"], told["option"], told["who"]) == (id, "no", "local")
        asked.line.answer_with(mine, "yes")
        await asked.line.everything()
        late = await host.events(asked.session, "late")
        assert [each["answer"]["outcome"]["optionId"] for each in late] == ["yes"]
        assert [each["option"] for each in (await host.events(asked.session, "answer"))] == ["no"]
        await asked.end()


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"outcome": {"outcome": "cancelled"}}},
        {"result": {"outcome": {"outcome": "selected", "optionId": "never offered"}}},
        {"result": {}},
        {"error": {"code": -32800, "message": "no"}},
    ],
)
async def test_an_answer_without_a_choice_takes_only_that_client_out(answer: dict[str, Any]) -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source)
        other = await asked.another()
        question = asked.permission()
        mine, theirs = await asked.line.until(ASK), await other.until(ASK)
        asked.line.send({"jsonrpc": "2.0", "id": mine["id"], **answer})
        await asked.line.everything()
        assert (await host.events(asked.session, "answer")) == []
        other.send({"jsonrpc": "2.0", "id": theirs["id"], **answer})
        assert await asked.agent.answer(question) == {"outcome": {"outcome": "cancelled"}}, "the last one gave up"
        await asked.end()


async def test_a_response_without_an_id_harms_nothing() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source)
        question = asked.permission()
        mine = await asked.line.until(ASK)
        asked.line.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "what?"}})
        asked.line.answer_with(mine, "yes")
        assert (await asked.agent.answer(question))["outcome"]["optionId"] == "yes"
        await asked.end()


async def test_a_question_waits_while_its_client_is_gone_and_has_a_new_id_and_the_same_name_afterwards() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)
        question = asked.permission()
        first = await asked.line.until(ASK)
        await host.leave(asked.line)
        again = await host.client(OURS)
        place = (await again.resume(asked.session))["_meta"]["dragoman"]
        second = await again.until(ASK)
        assert second["params"]["_meta"] == first["params"]["_meta"]
        assert place["questions"] == [second["params"]["_meta"]["dragoman"]["questionId"]]
        again.answer_with(second, "yes")
        assert (await asked.agent.answer(question))["outcome"]["optionId"] == "yes"
        asked.agent.reply(asked.prompt, END)
        await again.until("_dragoman/turn_ended")


async def test_the_agent_may_withdraw_and_gets_one_answer() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source)
        question = asked.permission()
        mine = await asked.line.until(ASK)
        asked.agent.send(asked.agent.note("$/cancel_request", requestId=question))
        assert await asked.agent.answer(question) == {"outcome": {"outcome": "cancelled"}}
        assert (await asked.line.until("$/cancel_request"))["params"] == {"requestId": mine["id"]}
        asked.line.answer_with(mine, "yes")
        await asked.end()
        assert (await host.events(asked.session, "answer"))[0]["who"] == "agent"
        assert asked.agent.lines.empty(), "exactly one answer"


async def test_a_cancel_answers_the_agent_and_withdraws_from_every_client_once() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source)
        other = await asked.another()
        question = asked.permission()
        await asked.line.until(ASK)
        await other.until(ASK)
        asked.line.notify("session/cancel", sessionId=asked.session)
        found = [await asked.agent.next(), await asked.agent.next()]
        answers = [message for message in found if message.get("id") == question]
        assert [each["result"] for each in answers] == [{"outcome": {"outcome": "cancelled"}}]
        for line in (asked.line, other):
            await line.until("$/cancel_request")
        assert not [m for m in await other.everything() if m.get("method") == "$/cancel_request"]
        await asked.end()


async def test_a_turn_that_ends_with_an_open_question_closes_it() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source)
        question = asked.permission()
        await asked.line.until(ASK)
        asked.agent.reply(asked.prompt, END)
        await asked.line.until("$/cancel_request")
        assert await asked.agent.answer(question) == {"outcome": {"outcome": "cancelled"}}
        assert (await asked.line.answer_to(asked.request))[1]["result"] == END


async def test_an_observer_sees_everything_and_is_not_asked() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)
        by_connection = await asked.another({"_meta": {"dragoman": {"role": "observer"}}})
        by_session = await host.client(OURS)
        await by_session.resume(asked.session, role="observer")
        by_right = await asked.another(OURS, visitor=Visitor(rights=frozenset(("view", "prompt"))))
        question = asked.permission()
        mine = await asked.line.until(ASK)
        asked.agent.say("seen")
        for line in (by_connection, by_session):
            messages = [await line.next()]
            assert messages[0]["params"]["update"]["content"]["text"] in ("hi", "seen")
            id = line.ask("session/prompt", sessionId=asked.session, prompt=[{"type": "text", "text": "x"}])
            before, answer = await line.answer_to(id)
            assert answer["error"]["data"] == {"reason": "forbidden"}
            assert not [m for m in before if m.get("method") == ASK]
            line.notify("session/cancel", sessionId=asked.session)
        assert not [m for m in await by_right.everything() if m.get("method") == ASK]
        asked.line.answer_with(mine, "yes")
        assert (await asked.agent.answer(question))["outcome"]["optionId"] == "yes"
        await asked.end()
        assert (await host.events(asked.session, "cancel")) == []


async def test_rules_decide_before_anyone_is_asked_and_are_logged() -> None:
    services = HostServices(rules=[parse_rule("execute:rm *", "deny", "flag", "test")])
    source = OnTheWire()
    async with hosted(source, services=services) as host:
        asked = await begin(host, source, OURS)
        call = {"toolCallId": "t", "title": "rm -rf x", "kind": "execute", "rawInput": {"command": "rm -rf x"}}
        answer = await asked.agent.ask(ASK, toolCall=call, options=OPTIONS)
        assert answer["outcome"]["optionId"] == "no"
        assert not [m for m in await asked.line.everything() if m.get("method") == ASK]
        logged = await host.events(asked.session, "answer")
        assert (logged[0]["who"], logged[0]["decision"]["action"]) == ("rule", "deny")
        await asked.end()


async def test_a_form_goes_to_clients_that_can_show_it() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source)
        able = await asked.another(FORMS)
        question = asked.form()
        found = await able.until("elicitation/create")
        assert found["params"]["sessionId"] == asked.session
        able.send(able.result_of(found, {"action": "accept", "content": {"name": "A"}}))
        assert await asked.agent.answer(question) == {"action": "accept", "content": {"name": "A"}}
        assert not [m for m in await asked.line.everything() if m.get("method") == "elicitation/create"]
        await asked.end()


@pytest.mark.parametrize("mode", ["form", "url"])
async def test_a_form_that_no_attached_client_can_show_is_cancelled_with_a_notice(mode: str) -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, {"session": {"notices": {}}, **({} if mode == "form" else FORMS)})
        question = asked.form() if mode == "form" else asked.url()
        answer = await asked.agent.answer(question)
        assert (answer["action"], answer["_meta"]["dragoman"]["decidedBy"]) == ("cancel", "nobody")
        assert "no attached client" in (await asked.line.until_update("notice"))["title"]
        await asked.end()


async def test_a_form_waits_while_no_client_is_attached() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source)
        await host.leave(asked.line)
        question = asked.form()
        line = await host.client(FORMS)
        async with asyncio.timeout(30):
            while not host.session(asked.session).questions:
                await line.everything()
        await line.resume(asked.session)
        found = await line.until("elicitation/create")
        line.send(line.result_of(found, {"action": "decline"}))
        assert await asked.agent.answer(question) == {"action": "decline"}
        asked.agent.reply(asked.prompt, END)


async def test_the_end_of_a_url_goes_to_exactly_those_who_got_it_with_their_ids() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, URLS)
        other, plain = await asked.another(URLS), await asked.another(FORMS)
        question = asked.url("their-id")
        first, second = await asked.line.until("elicitation/create"), await other.until("elicitation/create")
        id = first["params"]["elicitationId"]
        assert id != "their-id"
        assert id == second["params"]["elicitationId"]
        asked.line.send(asked.line.result_of(first, {"action": "accept"}))
        assert (await asked.agent.answer(question))["action"] == "accept"
        await other.until("$/cancel_request")
        asked.agent.send(asked.agent.note("elicitation/complete", elicitationId="their-id"))
        for line in (asked.line, other):  # also the one whose dialog was withdrawn
            assert (await line.until("elicitation/complete"))["params"] == {"elicitationId": id}
        assert not [m for m in await plain.everything() if m.get("method") == "elicitation/complete"]
        await asked.end()


async def test_two_agents_with_equal_elicitation_ids_do_not_meet() -> None:
    one, two = OnTheWire("one"), OnTheWire("two")
    async with hosted(one, more=[two]) as host:
        line = await host.client(URLS)
        ids = []
        for source in (one, two):
            session = await line.open("/tmp", _meta={"dragoman": {"agent": source.name}})
            id = line.prompt(session)
            prompt = await source.agent.prompted()
            asked = Asked(source, host, line, session, id)
            question = asked.url("same")
            found = await line.until("elicitation/create")
            ids.append(found["params"]["elicitationId"])
            line.send(line.result_of(found, {"action": "decline"}))
            await source.agent.answer(question)
            source.agent.reply(prompt, END)
            await line.answer_to(id)
        assert ids[0] != ids[1]


class _AsksWhileOpening(OnTheWire().kind):  # type: ignore[misc]
    """Needs a form before it answers `session/new`."""

    def before_open(self) -> None:
        new = self.opened[-1]
        asked = self.request(
            7, "elicitation/create", mode="form", message="Key?", requestedSchema=SCHEMA, requestId=new["id"]
        )
        self.send(asked)


class _SendsToAPage(OnTheWire().kind):  # type: ignore[misc]
    """Needs a page to be visited before it answers `session/new`, and another one when it is too late."""

    def before_open(self) -> None:
        self.send(self.page(7, "first"))

    def page(self, number: int, id: str) -> dict[str, Any]:
        members = {"mode": "url", "message": "Log in", "url": "https://example.com/login", "elicitationId": id}
        opening = self.opened[-1]["id"]
        found: dict[str, Any] = self.request(number, "elicitation/create", **members, requestId=opening)
        return found


async def test_the_end_of_a_page_of_a_request_reaches_its_client_also_after_the_request() -> None:
    source = OnTheWire(kind=_SendsToAPage)
    async with hosted(source) as host:
        line = await host.client(URLS)
        opening = line.ask("session/new", cwd="/tmp", mcpServers=[])
        found = await line.until("elicitation/create")
        id = found["params"]["elicitationId"]
        assert id != "first"
        line.send(line.result_of(found, {"action": "accept"}))
        assert (await source.agent.next())["result"]["action"] == "accept"
        await line.answer_to(opening)
        source.agent.send(source.agent.note("elicitation/complete", elicitationId="first"))
        assert (await line.until("elicitation/complete"))["params"] == {"elicitationId": id}
        assert isinstance(source.agent, _SendsToAPage)
        source.agent.send(source.agent.page(8, "second"))
        assert await source.agent.next() == source.agent.result(8, {"action": "cancel"}), "its request is over"


async def test_a_form_of_a_request_goes_to_the_client_that_made_it_with_its_id() -> None:
    source = OnTheWire(kind=_AsksWhileOpening)
    async with hosted(source) as host:
        watching = await host.client(FORMS)
        line = await host.client(FORMS)
        id = line.ask("session/new", cwd="/tmp", mcpServers=[])
        found = await line.until("elicitation/create")
        assert found["params"]["requestId"] == id
        assert "sessionId" not in found["params"]
        line.send(line.result_of(found, {"action": "accept", "content": {"name": "k"}}))
        assert await source.agent.next() == source.agent.result(7, {"action": "accept", "content": {"name": "k"}})
        assert await watching.everything() == []
