"""What the host tells its clients about a question: why it is asked, and what an answer of "always" writes."""

from __future__ import annotations

from typing import Any

from dragoman.host.services import HostServices
from dragoman.policy import parse_rule
from tests.host.kit import OURS, OnTheWire, hosted
from tests.host.test_questions import ASK, begin

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
RUN = {"toolCallId": "t", "title": "work", "kind": "execute", "rawInput": {"command": "rm -rf build && cmake -B build"}}


async def test_a_question_says_why_it_is_asked_where_and_how_many_commands_run() -> None:
    source = OnTheWire()
    services = HostServices(rules=[parse_rule("execute:rm *", "ask", "flag", "test")])
    async with hosted(source, services=services) as host:
        asked = await begin(host, source, OURS)
        spoofed = {"dragoman": {"why": "nothing to see", "questionId": "q-evil"}}
        asked.agent.call(ASK, toolCall=RUN, options=OPTIONS, _meta=spoofed)
        question = await asked.line.until(ASK)
        own = question["params"]["_meta"]["dragoman"]
        assert "rm *" in own["why"]
        assert own["questionId"] != "q-evil"
        assert own["cwd"]
        assert own["commands"] == ["rm -rf build && cmake -B build"]
        assert own["commandCount"] == 2
        assert own["options"] == {"ever": {"action": "allow", "by": "agent"}}, "this agent remembers in its own way"
        assert "readsReasons" not in own
        asked.line.answer_with(question, "no")
        await asked.agent.next()
        await asked.end()


async def test_the_rule_that_an_agent_says_it_writes_is_marked_as_its_own_word() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)
        options = [{**OPTIONS[1], "_meta": {"dragoman": {"rule": "execute:rm *", "kept": "everywhere"}}}, OPTIONS[2]]
        asked.agent.call(ASK, toolCall=RUN, options=options)
        question = await asked.line.until(ASK)
        own = question["params"]["_meta"]["dragoman"]["options"]["ever"]
        assert own == {"action": "allow", "by": "agent", "rule": "execute:rm *", "kept": "agent"}
        asked.line.answer_with(question, "no")
        await asked.agent.next()
        await asked.end()


async def test_a_client_that_shows_only_the_protocol_gets_the_words_there() -> None:
    source = OnTheWire()
    lying = {**RUN, "title": "npm test", "kind": "read"}
    async with hosted(source) as host:
        asked = await begin(host, source, {})
        reading = await asked.another({"_meta": {"dragoman": {"words": True}}})
        asked.agent.call(ASK, toolCall=lying, options=OPTIONS)
        for line, has_text in ((asked.line, True), (reading, False)):
            params = (question := await line.until(ASK))["params"]
            call = params["toolCall"]
            assert (call["kind"], call["title"]) == ("execute", "rm -rf build && cmake -B build")
            text = call["content"][-1]["content"]["text"] if has_text else ""
            assert ("agent  calls it: npm test\nwhy    no rule allows it" in text) == has_text
            names = [option["name"] for option in params["options"]]
            assert names == (
                ["Yes", "Always (yes, always; the agent remembers it)", "No"] if has_text else ["Yes", "Always", "No"]
            )
        words = params["_meta"]["dragoman"]["words"]
        assert (words["title"], words["agentTitle"]) == ("rm -rf build && cmake -B build", "npm test")
        reading.answer_with(question, "no")
        await asked.agent.next()
        await asked.end()


async def test_a_question_of_the_host_itself_names_the_rule_that_it_writes() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)
        id = asked.agent.call("terminal/create", command="make", args=["all"])
        question = await asked.line.until(ASK)
        own = question["params"]["_meta"]["dragoman"]
        always = own["options"]["allow-session"]
        assert (always["by"], always["kept"], always["action"]) == ("host", "session", "allow")
        assert always["rule"].startswith("execute:make all")
        assert set(own["options"]) == {"allow-session", "reject-session"}, "this host keeps no rules for a project"
        asked.line.answer_with(question, "reject-once")
        assert "Not permitted" in str(await asked.agent.answer(id))
        await asked.end()


async def test_a_reason_reaches_an_agent_that_reads_reasons() -> None:
    source = OnTheWire(capabilities={"loadSession": True, "_meta": {"dragoman": {}}})
    async with hosted(source) as host:
        asked = await begin(host, source, OURS)
        id = asked.agent.call(ASK, toolCall=RUN, options=OPTIONS)
        question = await asked.line.until(ASK)
        assert question["params"]["_meta"]["dragoman"]["readsReasons"] is True
        outcome = {"outcome": "selected", "optionId": "no", "_meta": {"dragoman": {"reason": "use ninja"}}}
        asked.line.send({"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": outcome}})
        answer: Any = await asked.agent.answer(id)
        assert answer["outcome"]["optionId"] == "no"
        assert answer["outcome"]["_meta"]["dragoman"] == {"decidedBy": "person", "reason": "use ninja"}
        await asked.end()
