"""Where no host is started, where it is started in a scope of systemd, and what a user is told about a logout."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.host.local.permit import is_switched_off, logout_warning, scope_command, why_not_start

PLAIN = "Name:\tpython\nNoNewPrivs:\t0\nSeccomp:\t0\n"
FILTERED = "Name:\tpython\nNoNewPrivs:\t0\nSeccomp:\t2\n"
NO_NEW = "Name:\tpython\nNoNewPrivs:\t1\nSeccomp:\t0\n"


@pytest.mark.parametrize(
    ("environment", "status", "first", "group", "why"),
    [
        ({}, PLAIN, PLAIN, "0::/user.slice", ""),
        ({}, "", "", "", ""),
        ({"CI": "true"}, PLAIN, PLAIN, "", "CI is set"),
        ({"CI": "false"}, PLAIN, PLAIN, "", ""),
        ({"CI": "true", "DRAGOMAN_HOST": "on"}, FILTERED, PLAIN, "", ""),
        ({"DRAGOMAN_CHILD": "x"}, PLAIN, PLAIN, "", "started by an agent"),
        ({}, FILTERED, PLAIN, "", "filtered system calls"),
        ({}, NO_NEW, PLAIN, "", "no new privileges"),
        # All programs of a container have the filter of the container: it is no limit of this one.
        ({}, FILTERED, FILTERED, "", ""),
        ({}, PLAIN, PLAIN, "0::/system.slice/actions_job/1", "job of a CI service"),
    ],
)
def test_no_host_is_started_from_a_limited_place(
    environment: dict[str, str], status: str, first: str, group: str, why: str
) -> None:
    found = why_not_start(environment, status=status, first_status=first, control_group=group)
    assert (why in found) if why else found == ""
    if why:
        assert "DRAGOMAN_HOST=on" in found


@pytest.mark.parametrize(("value", "is_off"), [("off", True), ("OFF", True), ("0", True), ("on", False), ("", False)])
def test_the_variable_switches_the_host_off(value: str, is_off: bool) -> None:
    assert is_switched_off({"DRAGOMAN_HOST": value}) == is_off


def test_a_scope_of_the_users_systemd_is_used_if_it_can_be_reached(tmp_path: Path) -> None:
    runtime = str(tmp_path)
    assert scope_command({}, has_program=True, runtime=runtime) == []
    (tmp_path / "systemd" / "private").mkdir(parents=True)
    assert scope_command({}, has_program=True, runtime=runtime) == []  # no bus
    (tmp_path / "bus").touch()
    command = scope_command({}, has_program=True, runtime=runtime)
    assert command[:3] == ["systemd-run", "--user", "--scope"]
    assert command[-1] == "--"
    assert scope_command({}, has_program=False, runtime=runtime) == []


@pytest.mark.parametrize(
    ("environment", "logind", "lingers", "runs", "is_warned"),
    [
        ({"SSH_CONNECTION": "x"}, True, False, True, True),
        ({}, True, False, True, False),
        ({"SSH_CONNECTION": "x"}, False, False, True, False),
        ({"SSH_CONNECTION": "x"}, True, True, True, False),
        ({"SSH_CONNECTION": "x"}, True, False, False, False),
    ],
)
def test_a_user_whose_turn_ends_at_logout_gets_a_note(
    environment: dict[str, str], logind: bool, lingers: bool, runs: bool, is_warned: bool
) -> None:
    found = logout_warning(environment, has_logind=logind, lingers=lingers, runs=runs)
    assert ("enable-linger" in found) == is_warned
