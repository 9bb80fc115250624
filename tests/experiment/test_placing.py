"""Which runs may go side by side: a table of what runs, what is to run, and where it goes."""

from __future__ import annotations

import pytest

from loadgen.experiment import words
from loadgen.experiment.placing import Claim, Machine, can_ever_run, most_alike, place

A, B = Machine("a", "host-1", 4, 1.0, "4 CPUs"), Machine("b", "host-2", 4, 1.0, "4 CPUs")
A2 = Machine("a2", "host-1", 4, 1.0, "4 CPUs")  # another node of A's machine
WHOLE = Claim(None)


def asked(*servers: str) -> Claim:
    return Claim(1, 0.0, frozenset(servers))


def where(
    claim: Claim, *running: tuple[Claim, Machine], machines: tuple[Machine, ...] = (A, B)
) -> str | None:
    found = place(claim, running, machines)
    return None if found is None else found.name


def test_what_starts_a_server_has_a_machine_to_itself() -> None:
    assert where(WHOLE) == "a"
    assert where(WHOLE, (WHOLE, A)) == "b"
    assert where(WHOLE, (WHOLE, A), (WHOLE, B)) is None
    assert where(WHOLE, (Claim(1), A), machines=(A,)) is None
    assert where(Claim(1), (WHOLE, A), machines=(A,)) is None


def test_two_nodes_on_one_machine_are_no_two_machines() -> None:
    assert where(WHOLE, (WHOLE, A), machines=(A, A2)) is None
    # Whoever says how many CPUs a run takes says that it may share the rest.
    assert where(Claim(4), (Claim(4), A), machines=(A, A2)) == "a2"


@pytest.mark.parametrize(
    ("claim", "beside", "expected"),
    [
        (Claim(2), [Claim(2)], "a"),
        (Claim(3), [Claim(2)], None),
        (Claim(1, 1.0), [Claim(1, 1.0)], None),
        (Claim(1, 0.5), [Claim(1, 0.5)], "a"),
        (Claim(1, 1.0), [Claim(1), Claim(1)], "a"),
    ],
)
def test_what_tells_its_share_goes_beside_others_while_there_is_room(
    claim: Claim, beside: list[Claim], expected: str | None
) -> None:
    assert where(claim, *((one, A) for one in beside), machines=(A,)) == expected


def test_a_server_that_stays_up_is_asked_by_one_run_at_a_time() -> None:
    assert where(asked("gpu-1"), (asked("gpu-1"), A)) is None
    assert where(asked("gpu-1", "gpu-2"), (asked("gpu-2"), A)) is None
    assert where(asked("gpu-1"), (asked("gpu-2"), A)) == "b"


def test_one_of_which_nobody_knows_where_it_is_runs_alone() -> None:
    unknown = Claim(1, 0.0, None)
    assert where(unknown) == "a"
    assert where(unknown, (asked("gpu-1"), A)) is None
    assert where(asked("gpu-1"), (unknown, A)) is None
    assert where(WHOLE, (unknown, A)) is None


def test_what_no_machine_has_is_known_before() -> None:
    assert can_ever_run(Claim(4, 1.0), [A])
    assert not can_ever_run(Claim(5), [A, B])
    assert not can_ever_run(Claim(None, 2.0), [A, B])


def test_only_machines_of_one_kind_are_compared() -> None:
    odd = Machine("c", "host-3", 64, 8.0, "64 CPUs")
    assert most_alike([A, odd, B]) == ([A, B], [odd])


def test_the_reasons_are_told() -> None:
    lines = words.side_by_side({"x": WHOLE, "y": Claim(1, 0.0, None), "z": asked("gpu-1")}, [A, A2])
    assert lines[0] == "2 nodes on 1 machine"
    assert "nothing runs beside y" in lines[1]
    assert "each run of x, so that one follows the other" in lines[2]
    assert "z" in lines[3]
