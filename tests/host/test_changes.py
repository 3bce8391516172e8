"""What turns changed, over the wire: lists, files, lines, decisions, marks, rewinds; each right and each refusal."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.host import Visitor
from dragoman.host.serving.access import ProjectServices
from dragoman.registry.agents import AgentEntry
from dragoman.runs.changes import snapshots_folder
from dragoman.snapshots.attribution import AgentClaims
from dragoman.snapshots.tracking import TurnTracker
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted
from tests.host.test_sessions import Steps

SECONDS = 60.0


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))


class Project:
    """A folder, and turns of one session in it that are functions."""

    def __init__(self, host: Hosted, client: Client, id: str, root: Path, steps: Steps) -> None:
        self.host = host
        self.client = client
        self.id = id
        self.root = root
        self.steps = steps

    def turn(self, work: Callable[[], object], *, roots: list[Path] | None = None, by_agent: bool = False) -> None:
        tracker = TurnTracker(snapshots_folder(), [str(root) for root in roots or [self.root]])
        tracker.begin(session_id=self.host.session(self.id).agent_session, agent="test")
        work()
        claims = AgentClaims()
        if by_agent:
            for path in self.root.iterdir():
                claims.add_write(str(path), path.read_bytes())
        tracker.end(claims, "the words of the user", "prompt-1")

    async def ask(self, method: str, **params: Any) -> Any:
        _, answer = await self.client.answer_to(
            self.client.ask(f"_dragoman/{method}", **{"sessionId": self.id, **params})
        )
        assert "result" in answer, answer
        return answer["result"]

    async def refuse(self, method: str, **params: Any) -> tuple[int, str | None, str]:
        _, answer = await self.client.answer_to(
            self.client.ask(f"_dragoman/{method}", **{"sessionId": self.id, **params})
        )
        error = answer["error"]
        return error["code"], (error.get("data") or {}).get("reason"), error["message"]

    async def files(self, turn: int | str = 1, **params: Any) -> dict[str, dict[str, Any]]:
        found = await self.ask("changes/files", turn=turn, **params)
        return {file["path"]: file for file in found["files"]}

    async def decide(self, do: str, path: str | None = None, hunks: list[int] | None = None, turn: Any = 1) -> Any:
        revision = (await self.ask("changes"))["revision"]
        named = {} if path is None else {"path": path}
        return await self.ask("changes/decide", turn=turn, do=do, revision=revision, hunks=hunks, **named)


@asynccontextmanager
async def project(tmp_path: Path, steps: Steps | None = None) -> AsyncIterator[Project]:
    root = tmp_path / "project"
    root.mkdir()
    steps = steps or Steps()
    async with hosted(steps) as host:
        client = await host.client(OURS)
        id = await client.open(str(root))
        yield Project(host, client, id, root, steps)


LINES = [f"line {number}\n" for number in range(1, 31)]


async def test_a_turn_is_listed_read_decided_about_and_marked(tmp_path: Path) -> None:
    async with project(tmp_path) as at:
        assert await at.ask("changes") == {"turns": [], "revision": "", "canRedo": False}
        file = at.root / "a.txt"
        file.write_text("".join(LINES))
        (at.root / "old.txt").write_text("a\nb\nc\nd\n")
        (at.root / "bin").write_bytes(b"\0one")

        def work() -> None:
            file.write_text("".join(LINES).replace("line 2\n", "LINE 2\n").replace("line 20\n", "twenty\nmore\n"))
            (at.root / "old.txt").rename(at.root / "new.txt")
            (at.root / "bin").write_bytes(b"\0two")
            (at.root / "end.txt").write_text("no newline")

        at.turn(work, by_agent=True)
        found = await at.ask("changes")
        (turn,) = found["turns"]
        assert (turn["turn"], turn["promptId"], turn["prompt"]) == (1, "prompt-1", "the words of the user")
        assert (turn["files"], turn["added"], turn["removed"], turn["open"]) == (4, 4, 2, 5)
        assert turn["startedAt"] <= turn["endedAt"]

        files = await at.files()
        assert (files["new.txt"]["change"], files["new.txt"]["oldPath"], files["new.txt"]["hunks"]) == (
            "renamed",
            "old.txt",
            [],
        )
        assert (files["bin"]["isBinary"], files["bin"]["state"]) == (True, "open")
        assert files["end.txt"]["hunks"][0]["noNewline"] == ["after"]
        assert files["end.txt"]["hunks"][0]["after"] == ["no newline"]
        first, second = files["a.txt"]["hunks"]
        assert (first["n"], first["beforeLine"], first["before"], first["after"]) == (1, 2, ["line 2"], ["LINE 2"])
        assert (first["above"], first["below"]) == (["line 1"], ["line 3", "line 4", "line 5"])
        assert (second["before"], second["after"], second["state"]) == (["line 20"], ["twenty", "more"], "open")
        assert files["a.txt"]["by"] == "agent"
        assert not files["a.txt"]["isStale"]
        side = {"turn": 1, "path": "a.txt", "from": 19, "to": 21}
        assert await at.ask("changes/context", **side, side="after") == {
            "lines": ["line 19", "twenty", "more"],
            "total": 31,
        }
        assert (await at.ask("changes/context", **side, side="before"))["lines"] == ["line 19", "line 20", "line 21"]

        other = await at.host.client(OURS)
        await other.load(at.id, str(at.root))
        kept = await at.decide("keep", "a.txt", [1])
        assert [hunk["state"] for hunk in kept["file"]["hunks"]] == ["kept", "open"]
        told = await other.until("_dragoman/changes/changed")
        assert told["params"] == {"sessionId": at.id, "turn": 1, "revision": kept["revision"]}
        assert await at.refuse(
            "changes/decide", turn=1, path="a.txt", hunks=[2], do="revert", revision=found["revision"]
        ) == (-32603, "changed", "something else was decided or changed meanwhile; look again")
        back = await at.decide("revert", "a.txt", [2])
        assert [hunk["state"] for hunk in back["file"]["hunks"]] == ["kept", "reverted"]
        assert not back["file"]["isStale"], "what the user took back is not a change of others"
        assert "line 20\n" in file.read_text()
        undone = await at.decide("undo", "a.txt", [2])
        assert [hunk["state"] for hunk in undone["file"]["hunks"]] == ["kept", "open"]
        assert "twenty\n" in file.read_text()

        place = {"path": "a.txt", "turn": 1, "from": 2, "to": 2, "digest": files["a.txt"]["digest"]}
        words = {"sessionId": at.id, "prompt": [{"type": "text", "text": "a.txt:2: why?"}]}
        for wrong in ("a.txt", [5], [{"turn": 1}], [{**place, "from": [1]}], [place] * 201):
            meta = {"dragoman": {"promptId": "prompt-1", "review": wrong}}
            assert (await at.client.error("session/prompt", **words, _meta=meta))["code"] == -32602
        meta = {"dragoman": {"promptId": "prompt-1", "review": [{**place, "other": "left out"}]}}
        await at.client.answer_to(at.client.ask("session/prompt", **words, _meta=meta))
        assert (await at.ask("changes"))["turns"][0]["review"] == [place]

        digest = files["bin"]["digest"]
        seen = {"turn": 1, "path": "bin", "isReviewed": True}
        assert (await at.refuse("changes/reviewed", **seen, digest="0" * 64))[1] == "changed"
        marked = (await at.ask("changes/reviewed", **seen, digest=digest))["file"]
        assert (marked["reviewed"]["digest"], marked["reviewed"]["who"]) == (digest, "local")
        gone = await at.ask("changes/reviewed", turn=1, path="bin", isReviewed=False, digest=digest)
        assert gone["file"]["reviewed"] is None

        await at.decide("keep")
        assert (await at.ask("changes"))["turns"][0]["open"] == 0
        assert at.host.session(at.id).facts["changes"] == {"files": 4, "added": 4, "removed": 2, "reviewed": True}


async def test_a_turn_of_an_agent_is_followed_under_the_id_of_its_prompt_and_counted_for_lists(tmp_path: Path) -> None:
    root, source = tmp_path / "project", OnTheWire()
    root.mkdir()
    entry = AgentEntry(name="test", command=("test", "--acp"), source="user", where="settings")
    async with hosted(source, services=ProjectServices(find_entry=lambda name: entry)) as host:
        client = await host.client(OURS)
        id = await client.open(str(root))
        asked = client.ask(
            "session/prompt",
            sessionId=id,
            prompt=[{"type": "text", "text": "write"}],
            _meta={"dragoman": {"promptId": "mine"}},
        )
        message = await source.agent.prompted()
        (root / "a.txt").write_text("one\ntwo\n")
        source.agent.reply(message, {"stopReason": "end_turn"})
        await client.answer_to(asked)
        listed = await client.result("_dragoman/changes", sessionId=id)
        (turn,) = listed["turns"]
        assert (turn["promptId"], turn["prompt"], turn["files"], turn["added"]) == ("mine", "write", 1, 2)
        async with asyncio.timeout(SECONDS):
            while not host.session(id).facts.get("changes"):  # noqa: ASYNC110 - no client waits for it
                await asyncio.sleep(0.01)
        assert host.session(id).facts["changes"] == {"files": 1, "added": 2, "removed": 0, "reviewed": False}
        decision = {"turn": 1, "path": "a.txt", "do": "revert", "revision": listed["revision"]}
        await client.answer_to(client.ask("_dragoman/changes/decide", sessionId=id, **decision))
        assert not (root / "a.txt").exists()
        assert host.session(id).facts["changes"] == {"files": 0, "added": 0, "removed": 0, "reviewed": True}


async def test_a_file_that_changed_since_is_stale_and_its_hunks_say_why_they_stay(tmp_path: Path) -> None:
    async with project(tmp_path) as at:
        file = at.root / "a.txt"
        file.write_text("".join(LINES))
        at.turn(lambda: file.write_text("".join(LINES).replace("line 2\n", "two\n").replace("line 25\n", "25\n")))
        file.write_text(file.read_text().replace("line 3\n", "mine\n"))
        (found,) = (await at.files()).values()
        assert found["isStale"]
        first, second = found["hunks"]
        assert (first["state"], second["state"]) == ("refused", "open")
        assert "changed since the turn" in first["why"]
        revision = (await at.ask("changes"))["revision"]
        asked = {"turn": 1, "path": "a.txt", "do": "revert", "revision": revision}
        code, reason, why = await at.refuse("changes/decide", **asked, hunks=[1])
        assert (code, reason) == (-32603, "refused")
        assert "changed since the turn" in why
        done = await at.ask("changes/decide", **asked, hunks=[2])
        assert done["file"]["hunks"][1]["state"] == "reverted"
        assert file.read_text() == "".join(LINES).replace("line 2\n", "two\n").replace("line 3\n", "mine\n")


async def test_all_turns_together_are_one_change_of_each_file(tmp_path: Path) -> None:
    async with project(tmp_path) as at:
        file = at.root / "a.txt"
        file.write_text("one\n")
        at.turn(lambda: file.write_text("two\n"))
        at.turn(lambda: file.write_text("three\n"))
        at.turn(lambda: (at.root / "gone.txt").write_text("x\n"))
        at.turn((at.root / "gone.txt").unlink)
        files = await at.files("session")
        assert list(files) == ["a.txt"]
        (hunk,) = files["a.txt"]["hunks"]
        assert (hunk["before"], hunk["after"], files["a.txt"]["turn"]) == (["one"], ["three"], 2)
        revision = (await at.ask("changes"))["revision"]
        whole = {"turn": "session", "path": "a.txt", "revision": revision}
        assert (await at.refuse("changes/decide", **whole, do="revert"))[1] == "refused"
        assert (await at.ask("changes/decide", **whole, do="keep"))["file"]["hunks"][0]["state"] == "kept"
        assert (await at.files(1))["a.txt"]["hunks"][0]["state"] == "kept"
        assert (await at.files(1))["a.txt"]["isStale"], "a later turn changed it again"


async def test_turns_are_rewound_by_a_plan_that_still_holds_and_brought_back(tmp_path: Path) -> None:
    async with project(tmp_path) as at:
        file, other = at.root / "a.txt", at.root / "b.txt"
        file.write_text("one\n")

        def work() -> None:
            file.write_text("two\n")
            other.write_text("new\n")

        at.turn(work)
        plan = await at.ask("rewind/plan", turns=[1])
        assert {path["path"]: path["action"] for path in plan["paths"]} == {"a.txt": "write", "b.txt": "delete"}
        assert plan["seconds"] == 60
        stranger = await at.host.client(OURS)
        error = await stranger.error("_dragoman/rewind/apply", planId=plan["planId"])
        assert error["data"]["reason"] == "expired", "a plan belongs to its connection"
        other.write_text("newer\n")
        assert (await at.refuse("rewind/apply", planId=plan["planId"]))[1] == "changed"
        assert file.read_text() == "two\n"
        plan = await at.ask("rewind/plan", turns=[1])
        assert {path["path"]: path["action"] for path in plan["paths"]} == {"a.txt": "write", "b.txt": "conflict"}
        done = await at.ask("rewind/apply", planId=plan["planId"], choices={"b.txt": "keep"})
        assert (done["changed"], done["kept"], done["failed"]) == (["a.txt"], ["b.txt"], [])
        assert (file.read_text(), other.read_text()) == ("one\n", "newer\n")
        assert (await at.refuse("rewind/apply", planId=plan["planId"]))[1] == "expired", "it is applied once"
        listed = await at.ask("changes")
        assert (listed["turns"][0]["isRewound"], listed["canRedo"]) == (True, True)
        assert (await at.refuse("rewind/plan", turns=[1]))[1] == "refused"
        redo = await at.ask("rewind/plan", redo=True)
        assert (await at.ask("rewind/apply", planId=redo["planId"]))["changed"] == ["a.txt"]
        assert file.read_text() == "two\n"
        assert not (await at.ask("changes"))["canRedo"]


async def test_nothing_is_taken_back_while_a_turn_runs_in_the_folder(tmp_path: Path) -> None:
    steps = Steps()
    async with project(tmp_path, steps) as at:
        (at.root / "inner").mkdir()
        file = at.root / "a.txt"
        file.write_text("one\n")
        at.turn(lambda: file.write_text("two\n"))
        plan = await at.ask("rewind/plan", turns=[1])
        revision = (await at.ask("changes"))["revision"]
        worker = await at.host.client(OURS)
        running = worker.prompt(await worker.open(str(at.root / "inner")), "wait")
        async with asyncio.timeout(SECONDS):
            await steps.started.wait()
        decision = {"turn": 1, "path": "a.txt", "do": "revert", "revision": revision}
        assert (await at.refuse("changes/decide", **decision))[1] == "running"
        assert (await at.refuse("rewind/apply", planId=plan["planId"]))[1] == "running"
        assert file.read_text() == "two\n"
        steps.go.set()
        await worker.answer_to(running)
        tracker = TurnTracker(snapshots_folder(), [str(at.root)])
        tracker.begin(session_id="of another program", agent="elsewhere")
        code, reason, why = await at.refuse("changes/decide", **decision)
        assert (code, reason) == (-32603, "running")
        assert "elsewhere" in why
        tracker.close()
        assert (await at.ask("changes/decide", **decision))["file"]["isReverted"]
        assert file.read_text() == "one\n"


async def test_a_right_at_a_time_and_nothing_of_others(tmp_path: Path) -> None:
    async with project(tmp_path) as at:
        file = at.root / "a.txt"
        file.write_text("one\n")
        at.turn(lambda: file.write_text("two\n"))
        revision = (await at.ask("changes"))["revision"]
        plan = await at.ask("rewind/plan", turns=[1])
        digest = (await at.files())["a.txt"]["digest"]
        reads: dict[str, dict[str, Any]] = {
            "changes": {},
            "changes/files": {"turn": 1},
            "changes/context": {"turn": 1, "path": "a.txt", "side": "after", "from": 1, "to": 1},
        }
        writes: dict[str, dict[str, Any]] = {
            "changes/decide": {"turn": 1, "path": "a.txt", "do": "revert", "revision": revision},
            "changes/reviewed": {"turn": 1, "path": "a.txt", "isReviewed": True, "digest": digest},
            "rewind/plan": {"turns": [1]},
            "rewind/apply": {"planId": plan["planId"]},
        }
        viewer = await at.host.client(OURS, visitor=Visitor(rights=frozenset({"view"}), is_local=False))
        other = await at.host.client(OURS, visitor=Visitor(principal="other", is_local=False))
        far = Visitor(folders=(str(tmp_path / "elsewhere"),), is_local=False)
        elsewhere = await at.host.client(OURS, visitor=far)
        for method, params in (reads | writes).items():
            asked = {"sessionId": at.id, **params}
            if method in reads:
                assert await viewer.result(f"_dragoman/{method}", **asked)
            else:
                error = await viewer.error(f"_dragoman/{method}", **asked)
                assert error["data"] == {"reason": "forbidden"}, method
            if method == "rewind/apply":
                continue  # the plan of another connection, as above
            missing = await other.error(f"_dragoman/{method}", **{**asked, "sessionId": "none"})
            assert await other.error(f"_dragoman/{method}", **asked) == missing, method
        assert (await elsewhere.result("_dragoman/changes", sessionId=at.id))["turns"] == []
        assert file.read_text() == "two\n"
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("changes/files", {"turn": 2}),
            ("changes/files", {"turn": "1"}),
            ("changes/files", {"turn": True}),
            ("changes/context", {"turn": 1, "path": "a.txt", "side": "both", "from": 1, "to": 2}),
            ("changes/context", {"turn": 1, "path": "a.txt", "side": "after", "from": 0, "to": 2}),
            ("changes/decide", {"turn": 1, "path": "a.txt", "do": "erase", "revision": revision}),
            ("changes/decide", {"turn": 1, "do": "keep", "hunks": [1], "revision": revision}),
            ("rewind/plan", {"turns": [0]}),
            ("rewind/plan", {"turns": [1], "redo": True}),
            ("rewind/plan", {}),
            ("rewind/apply", {"planId": plan["planId"], "choices": {"a.txt": "burn"}}),
        ]
        for method, params in wrong:
            assert (await at.refuse(method, **params))[0] == -32602, (method, params)
        for path in ("../secret", "/etc/passwd", str(tmp_path / "home")):
            asked = {"turn": 1, "path": path, "side": "after", "from": 1, "to": 2}
            assert (await at.refuse("changes/context", **asked))[1] == "refused"


async def test_long_changes_and_odd_names_are_bounded_and_found(tmp_path: Path) -> None:
    async with project(tmp_path) as at:
        odd = os.fsdecode(b"caf\xe9.txt")

        def work() -> None:
            (at.root / "long.txt").write_text("".join(f"{number}\n" for number in range(6000)))
            (at.root / odd).write_text("x\n")

        at.turn(work)
        files = await at.files()
        long = files["long.txt"]
        assert (long["isTooLong"], long["added"], long["hunks"][0]["after"]) == (True, 6000, [])
        whole = (await at.files(path="long.txt"))["long.txt"]
        assert (whole["isTooLong"], len(whole["hunks"][0]["after"])) == (False, 6000)
        kept = await at.decide("revert", "caf\ufffd.txt")
        assert kept["file"]["isReverted"]
        assert os.fsencode(odd) not in os.listdir(os.fsencode(at.root))
