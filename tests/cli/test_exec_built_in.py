"""`dragoman exec` without a named agent: the built-in one."""

from __future__ import annotations

import json

from tests.cli.exec_kit import Place, place

__all__ = ["place"]


def test_without_a_name_the_built_in_agent_runs_and_a_script_is_marked_as_one(place: Place) -> None:
    done = place.run("--model", "scripted", "--output", "json", "say hello")
    assert done.code == 0, done.err
    assert done.result["text"] == "hello"
    assert done.result["scripted"] is True
    assert done.result["agent"]["name"] == "dragoman"
    assert done.result["agent"]["command"][1:] == ["-m", "dragoman", "agent", "--model", "scripted"]


def test_the_first_event_states_that_a_script_is_played(place: Place) -> None:
    first, *_ = place.run("--model", "scripted", "--output", "events", "say hello").events
    assert (first["event"], first["scripted"]) == ("session", True)


def test_without_a_model_the_code_is_7_and_the_hint_names_what_to_set(place: Place) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        place.environment.pop(name, None)
    done = place.run("--output", "json", "say hello")
    assert done.code == 7
    assert "no model is named" in done.err
    assert "--model MODEL" in done.result["error"]["hint"]


def test_the_default_agent_of_the_user_comes_before_the_built_in_agent(place: Place) -> None:
    settings = place.home / "dragoman" / "config" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"default_agent": "scripted"}))
    done = place.run("--output", "json", "say hello")
    assert done.result["agent"]["name"] == "scripted", done.err


def test_a_session_is_stored_and_can_be_resumed(place: Place) -> None:
    first = place.run("--model", "scripted", "--output", "json", "say one").result
    again = place.run("--model", "scripted", "--output", "json", "--resume", "last", "say two").result
    assert again["session_id"] == first["session_id"]
    assert again["text"] == "two"


def test_a_write_needs_a_rule_that_allows_it(place: Place) -> None:
    done = place.run("--model", "scripted", "--output", "json", "write new.txt text")
    assert done.code == 5
    assert not (place.project / "new.txt").exists()
    allowed = place.run("--model", "scripted", "--output", "json", "--allow", "edit:new.txt", "write new.txt text")
    assert allowed.code == 0, allowed.err
    assert (place.project / "new.txt").read_text() == "text"
    assert [change["change"] for change in allowed.result["files_changed"]] == ["created"]


def test_the_model_and_mode_of_the_settings_are_used_where_no_flag_says_otherwise(place: Place) -> None:
    settings = place.home / "dragoman" / "config" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"model": "scripted", "mode": "plan"}))
    done = place.run("--output", "json", "--allow", "*", "write new.txt text\nsay {result}")
    assert done.code == 0, done.err
    assert "plan only reads" in done.result["text"]
    settings.write_text(json.dumps({"model": "scripted", "mode": "wild"}))
    broken = place.run("say hello")
    assert broken.code == 4
    assert "there is no mode 'wild'" in broken.err


def test_no_rule_answers_a_question_of_the_agent(place: Place) -> None:
    script = "question Drop the table? | Yes, drop it | No\nsay {result}"
    for flags in (("--allow", "*"), ("--mode", "full", "--allow", "*"), ()):
        done = place.run("--model", "scripted", "--output", "json", *flags, script)
        assert done.code == 0, done.err
        assert "The user answered" not in done.out
        assert done.result["text"] == "Drop the table?\n\n- Yes, drop it\n- No"
        assert done.result["permissions"] == []
        assert done.result["stop_reason"] == "end_turn"


def test_the_next_prompt_answers_a_question(place: Place) -> None:
    first = place.run("--model", "scripted", "--output", "json", "question Which name?\nsay not reached")
    assert first.result["text"] == "Which name?"
    again = place.run("--model", "scripted", "--output", "json", "--resume", "last", "Call it otter")
    assert again.code == 0, again.err
    assert again.result["session_id"] == first.result["session_id"]
    assert again.result["text"] == "Call it otter"


def test_the_model_reads_that_no_user_could_be_asked_and_which_rule_would_do(place: Place) -> None:
    done = place.run("--model", "scripted", "--output", "json", "write new.txt text\nsay {result}")
    assert done.code == 5
    assert "no user can be asked" in done.result["text"]
    assert "`edit:new.txt`" in done.result["text"]
    assert "user refused" not in done.result["text"]


def test_the_model_reads_which_rule_of_the_run_refused(place: Place) -> None:
    script = "run echo hi\nsay {result}"
    done = place.run("--model", "scripted", "--output", "json", "--deny", "execute:echo *", script)
    assert done.code == 0, done.err
    assert "denied by rule execute:echo * (--deny)" in done.result["text"]
    assert "user refused" not in done.result["text"]
