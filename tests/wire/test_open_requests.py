"""Requests that wait for their answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import INTERNAL_ERROR, INVALID_REQUEST
from dragoman.wire import Id
from dragoman.wire.open_requests import OpenRequests

IDS: st.SearchStrategy[Id] = st.sampled_from([0, 1, -1, "0", "1", "", None])


def test_an_id_is_used_once_at_a_time_and_an_answer_counts_once() -> None:
    requests: OpenRequests[str] = OpenRequests(10)
    for request_id in (1, "1", None):
        assert requests.refusal(request_id) is None
        requests.open(request_id, f"about {request_id!r}")
        refusal = requests.refusal(request_id)
        assert refusal is not None
        assert refusal.code == INVALID_REQUEST
    assert list(requests) == [(1, "about 1"), ("1", "about '1'"), (None, "about None")]
    assert (requests.get("1"), requests.close("1"), requests.close("1")) == ("about '1'", "about '1'", None)
    assert requests.refusal("1") is None


def test_so_many_may_wait_and_null_may_be_no_id() -> None:
    requests: OpenRequests[None] = OpenRequests(2, takes_null=False)
    refusal = requests.refusal(None)
    assert refusal is not None
    assert refusal.code == INVALID_REQUEST
    requests.open(1, None)
    requests.open(2, None)
    refusal = requests.refusal(3)
    assert refusal is not None
    assert refusal.code == INTERNAL_ERROR
    assert [request_id for request_id, _ in requests.close_all()] == [1, 2]
    assert (len(requests), requests.refusal(3)) == (0, None)


def test_ids_of_our_own_are_new_each_time() -> None:
    numbers: OpenRequests[str] = OpenRequests(2)
    assert [numbers.open_own("a"), numbers.open_own("b")] == [1, 2]
    named: OpenRequests[str] = OpenRequests(2, prefix="x-")
    own_id = named.open_own("a")
    assert (own_id, named.close(own_id), named.open_own("b")) == ("x-1", "a", "x-2")
    assert (named.is_own("x-1"), named.is_own("y"), named.is_own(1), numbers.is_own("1")) == (True, False, False, False)


@given(st.lists(st.tuples(st.booleans(), IDS)))
def test_any_order_of_requests_and_answers(steps: list[tuple[bool, Id]]) -> None:
    requests: OpenRequests[int] = OpenRequests(3)
    model: dict[str, int] = {}
    for number, (is_request, request_id) in enumerate(steps):
        if is_request:
            is_free = repr(request_id) not in model and len(model) < 3
            assert (requests.refusal(request_id) is None) == is_free
            if is_free:
                requests.open(request_id, number)
                model[repr(request_id)] = number
        else:
            assert requests.close(request_id) == model.pop(repr(request_id), None)
        assert {repr(request_id): about for request_id, about in requests} == model
