"""An edit is worked out before the user is asked: what is shown is what will change; the impossible is not asked."""

from pathlib import Path

from dragoman.schema import v1
from tests.builtin.http_service import Answers, Service, ask


def the_diff(request: v1.RequestPermissionRequest) -> v1.Diff:
    (diff,) = request.tool_call.content or []
    assert isinstance(diff, v1.Diff)
    return diff


async def test_permission_shows_the_whole_file_before_and_after(tmp_path: Path) -> None:
    service, answers = Service(tmp_path), Answers("allow_once")
    (service.project / "a.py").write_text("one\ntwo\nthree\n")
    async with service.session(permission=answers) as session:
        await ask(session, "edit a.py two => 2")
    (asked,) = answers.asked
    diff = the_diff(asked)
    assert (diff.old_text, diff.new_text) == ("one\ntwo\nthree\n", "one\n2\nthree\n")
    assert asked.tool_call.locations
    assert asked.tool_call.locations[0].line == 2
    assert (service.project / "a.py").read_text() == "one\n2\nthree\n"


async def test_permission_to_overwrite_shows_the_old_text(tmp_path: Path) -> None:
    service, answers = Service(tmp_path), Answers("allow_once")
    (service.project / "a.py").write_text("old\n")
    async with service.session(permission=answers) as session:
        await ask(session, "read a.py", "write a.py new")
    diff = the_diff(answers.asked[-1])
    assert (diff.old_text, diff.new_text) == ("old\n", "new")


async def test_an_edit_that_cannot_apply_fails_without_a_question(tmp_path: Path) -> None:
    service, answers = Service(tmp_path), Answers("allow_once")
    (service.project / "a.py").write_text("one\none\n")
    async with service.session(permission=answers) as session:
        for line in ("edit a.py zero => 0", "edit a.py one => 1", "edit missing.py a => b", "write a.py overwritten"):
            updates = await ask(session, line)
            statuses = [each.status for each in updates if isinstance(each, v1.ToolCallUpdate)]
            assert statuses[-1] == "failed", line
    assert answers.asked == []
    assert (service.project / "a.py").read_text() == "one\none\n"


async def test_a_file_outside_of_the_project_is_not_read_before_permission(tmp_path: Path) -> None:
    """Otherwise the answer would show what the file holds."""
    service, answers = Service(tmp_path), Answers("reject_once")
    outside = tmp_path / "secret.txt"
    outside.write_text("password\n")
    async with service.session(permission=answers) as session:
        for old in ("password", "other"):
            await ask(session, f"edit {outside} {old} => x")
    assert len(answers.asked) == 2
    assert all(the_diff(each).old_text != "password\n" for each in answers.asked)


async def test_two_edits_of_one_step_are_shown_one_after_the_other(tmp_path: Path) -> None:
    service, answers = Service(tmp_path), Answers("allow_once")
    (service.project / "a.py").write_text("one\n")
    async with service.session(permission=answers) as session:
        await ask(session, "edit a.py one => two", "& edit a.py two => three")
    first, second = map(the_diff, answers.asked)
    assert (first.new_text, second.old_text, second.new_text) == ("two\n", "two\n", "three\n")
    assert (service.project / "a.py").read_text() == "three\n"


async def test_a_file_that_changed_while_the_user_was_asked_is_matched_again(tmp_path: Path) -> None:
    service = Service(tmp_path)
    path = service.project / "a.py"
    path.write_text("one\ntwo\n")

    class Meanwhile(Answers):
        async def __call__(self, request: v1.RequestPermissionRequest, session: object) -> str | None:
            path.write_text("zero\none\ntwo\n" if len(self.asked) == 0 else "empty\n")
            return await super().__call__(request, session)  # type: ignore[arg-type]  # not used there

    async with service.session(permission=Meanwhile("allow_once")) as session:
        await ask(session, "edit a.py two => 2")
        assert path.read_text() == "zero\none\n2\n"
        await ask(session, "edit a.py one => 1")
        assert path.read_text() == "empty\n"
