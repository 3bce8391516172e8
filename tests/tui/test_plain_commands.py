"""The commands of plain mode as a user types them."""

from __future__ import annotations

from tests.tui.here import SCRIPTED, UserHere


async def test_prompts_that_wait_are_changed_moved_and_taken_back(user: UserHere) -> None:
    async with user.host_here(), user.plain(**SCRIPTED) as client:
        client.type("run sleep 1000")
        await client.until("another line is a prompt")
        client.type("say first", "say second", "say third")
        await client.until("note: waiting, 3 in the queue")
        client.type("/edit 2 say changed", "/move 3 1", "/queue")
        await client.until("note: changed: say changed")
        await client.until("1: say third")
        await client.until("3: say changed")
        client.type("/move 9 1", "/move 1 9", "/edit 1", "/drop 2", "/queue")
        await client.until("note: /move takes the number")
        await client.until("note: the places are 1 to 3")
        await client.until("note: type the new text behind the number")
        await client.until("note: taken back")
        await client.until("2: say changed")
        client.type("/steer use ninja")
        await client.until("note: ")
        client.type("/stop")
        await client.until("note: not sent: the turn was stopped; type it again:")
        await client.until("  say third")
        await client.until("  say changed")
        await client.until("note: the turn ended: stopped")
        await client.until("-- done")
        assert "  first" not in client.seen
        client.type("/stop")
        await client.until("note: nothing runs")
        await client.end()


async def test_files_commands_and_answers_in_lines(user: UserHere) -> None:
    async with user.host_here(), user.plain(**SCRIPTED) as client:
        await client.until("note: session")
        client.type("say see @a.txt")
        await client.until("  see @a.txt")
        await client.until("-- done")
        client.type("!echo from the shell; exit 3")
        await client.until("shell: echo from the shell")
        await client.until("  from the shell")
        await client.until("shell: exit 3")
        client.type("!!", "say with it")
        await client.until("goes with your next prompt")
        await client.until("  with it [!echo from the shell; exit 3:")
        await client.until("-- done")
        client.type("!", "/traffic 40")
        await client.until("note: type a command behind !")
        await client.until("req 2, prompt")
        client.type("think A long thought about it.\\", "say thought over")
        await client.until("thought: A long thought")
        await client.until("-- done")
        client.type("/thought", "/copy")
        await client.until("thought:")
        await client.until("  A long thought about it.")
        await client.until("note: copied")
        # The built-in agent has commands of these names, which win, but for the mode.
        client.type("/mode", "/mode 9", "/mode plan", "/dragoman:model")
        await client.until("1: Ask (ask), chosen")
        await client.until("note: /mode N, or a name, uses one")
        await client.until("note: there is no mode 9")
        await client.until("Plan, for this session")
        await client.until("1: scripted (scripted), chosen")
        client.type("/options", "/options effort", "/options effort 1", "/options nothing")
        await client.until("model: scripted (Model)")
        await client.until("1: ")
        await client.until("new sessions of dragoman begin with it")
        await client.until("note: the options are mode, model, effort")
        client.type("/settings", "/settings forget effort", "/help", "/unknown words")
        await client.until("screen: full")
        await client.until("remembered: dragoman, effort = ")
        await client.until("note: effort is not remembered")
        await client.until("/leave")
        await client.until("note: not sent: there is no command /unknown")
        client.type("/sessions", "/sessions all", "/open 77", "/leave")
        await client.until("1: done, say see @a.txt")
        await client.until("note: /open takes the number")
        await client.until("brings you back")


async def test_a_session_of_another_folder_is_opened_by_its_number(user: UserHere) -> None:
    other = user.project / "other"
    other.mkdir()
    async with user.host_here():
        async with user.plain(**SCRIPTED, cwd=str(other)) as client:
            await client.until("note: session")
            client.type("say from the other folder")
            await client.until("-- done")
        async with user.plain(**SCRIPTED) as client:
            await client.until("note: session")
            client.type("/sessions all")
            line = await client.until("say from the other folder")
            assert "project/other" in line, "the folder is named"
            client.type(f"/open {line.partition(':')[0]}")
            await client.until("  from the other folder")
            await client.until("note: session")
