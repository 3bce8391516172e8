"""The seccomp program of both processors, run by a small machine of its own: only one of them is here."""

from __future__ import annotations

import struct

import pytest

from dragoman.process.sandbox.filter import MACHINES, Machine, address_filter, namespace_filter, thread_filter

ALLOW, NOTIFY, REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050001
machines = pytest.mark.parametrize("calls", MACHINES.values(), ids=MACHINES.keys())


def judge(program: bytes, calls: Machine, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the program returns for one system call."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, calls.audit if audit is None else audit, 0, *padded)
    codes = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = codes[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x06:
                return int(value)
            case _:
                pytest.fail(f"unknown code {code:#x}")


@machines
def test_sockets_of_the_thread_are_reported_but_for_netlink(calls: Machine) -> None:
    closed, opened = thread_filter(calls, network=False), thread_filter(calls, network=True)
    for family in (0, 1, 2, 10, 17, 38, 40, 999):
        assert judge(closed, calls, calls.socket, family) == NOTIFY
        assert judge(opened, calls, calls.socket, family) == (ALLOW if family in (2, 10) else NOTIFY)
    assert judge(closed, calls, calls.socket, 16) == ALLOW
    # The kernel takes the family as 32 bits: what stands above must not change the answer.
    assert judge(closed, calls, calls.socket, 1 << 32 | 2) == NOTIFY


@machines
def test_namespaces_leave_only_two_families_to_the_filter(calls: Machine) -> None:
    program = namespace_filter(calls)
    verdicts = {family: judge(program, calls, calls.socket, family) for family in (1, 2, 10, 16, 17, 40)}
    assert verdicts == {1: ALLOW, 2: ALLOW, 10: ALLOW, 16: ALLOW, 17: REFUSE, 40: REFUSE}


@machines
@pytest.mark.parametrize("is_thread", [True, False])
def test_the_same_calls_are_refused_in_both(calls: Machine, is_thread: bool) -> None:
    program = thread_filter(calls, network=False) if is_thread else namespace_filter(calls)
    assert [judge(program, calls, number) for number in calls.refused] == [REFUSE] * 10
    assert judge(program, calls, calls.ioctl, 0, 0x5412) == REFUSE
    assert judge(program, calls, calls.ioctl, 0, 1 << 32 | 0x5412) == REFUSE
    assert judge(program, calls, calls.ioctl, 0, 0x541C) == REFUSE
    assert judge(program, calls, calls.ioctl, 0, 0x5401) == ALLOW
    assert judge(program, calls, calls.socket + 12, 1) == ALLOW
    assert judge(program, calls, 0) == ALLOW


@machines
def test_calls_by_other_numbers_are_refused(calls: Machine) -> None:
    program = thread_filter(calls, network=False)
    assert judge(program, calls, 0, audit=0x40000003) == REFUSE
    assert judge(program, calls, 0x40000000 | calls.socket, 2) == REFUSE


@machines
def test_calls_that_name_an_address_are_reported(calls: Machine) -> None:
    program = address_filter(calls)
    assert judge(program, calls, calls.connect, 3, 0x1000, 16) == NOTIFY
    assert judge(program, calls, calls.sendto, 3, 0, 0, 0, 0x1000, 16) == NOTIFY
    assert judge(program, calls, calls.sendto, 3, 0, 0, 0, 0, 0) == ALLOW
    assert judge(program, calls, calls.socket, 2) == ALLOW
