"""Roles of errors: one probable cause, what follows it, what stands on its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.catalogue import load
from trainmon.diagnosis.roles import ErrorGroup, assign_roles, closure

CATALOGUE = load()


def group(code: str, order: int, first: float | None = None, node: str | None = None) -> ErrorGroup:
    entry = CATALOGUE.entries[code]
    return ErrorGroup(code, entry.level, order, first, entry.is_usually, node)


def roles(*groups: ErrorGroup) -> list[str]:
    return assign_roles(groups, CATALOGUE.consequences)


def test_first_fatal_root_cause_and_what_follows() -> None:
    assert roles(
        group("CUDA_OOM", 0, 100.0),
        group("NCCL_WATCHDOG_TIMEOUT", 1, 700.0),
        group("TORCHRUN_CHILD_FAILED", 2, 705.0),
        group("SIGTERM_FROM_LAUNCHER", 3, 704.0),
    ) == ["probable cause", "follows CUDA_OOM", "follows CUDA_OOM", "warning"]


def test_the_victim_that_prints_first_is_not_the_cause() -> None:
    words = roles(group("NCCL_SOCKET_CLOSED", 0), group("NCCL_CUDA_OOM", 1))
    assert words == ["follows NCCL_CUDA_OOM", "probable cause"]


def test_time_counts_before_reading_order() -> None:
    words = roles(group("KEY_ERROR", 0, 500.0, "b"), group("DISK_FULL", 1, 100.0, "a"))
    assert words == ["its own", "probable cause"]


def test_a_symptom_long_before_the_cause_does_not_follow_it() -> None:
    assert roles(group("GLOO_CONNECTION_CLOSED", 0, 10.0), group("CUDA_OOM", 1, 5000.0)) == [
        "its own",
        "probable cause",
    ]
    assert roles(group("GLOO_CONNECTION_CLOSED", 0, 4990.0), group("CUDA_OOM", 1, 5000.0))[0] == "follows CUDA_OOM"


def test_a_line_without_time_takes_that_of_its_node() -> None:
    words = roles(
        group("LOSS_NAN", 0, 100.0, "a"),
        group("KEY_ERROR", 1, None, "a"),
        group("DISK_FULL", 2, 50.0, "b"),
    )
    assert words == ["its own", "its own", "probable cause"]


def test_only_symptoms() -> None:
    assert roles(group("TORCHRUN_CHILD_FAILED", 0, 1.0), group("NCCL_INTERNAL_ERROR", 1, 200.0)) == [
        "probable cause",
        "its own",
    ]
    # the peer that lost it speaks first, the killed worker is known only at the end
    assert roles(group("GLOO_CONNECTION_CLOSED", 0), group("EXIT_SIGKILL", 1), group("TORCHRUN_CHILD_FAILED", 2)) == [
        "follows EXIT_SIGKILL",
        "probable cause",
        "follows EXIT_SIGKILL",
    ]
    assert roles(group("GENERIC_TRACEBACK", 0, 1.0), group("MPI_RANK_EXITED", 1, 2.0)) == [
        "probable cause",
        "follows GENERIC_TRACEBACK",
    ]
    # a locked tracker an hour before explains no time-out
    assert roles(group("DB_LOCKED", 0, 1.0), group("NCCL_WATCHDOG_TIMEOUT", 1, 3600.0)) == ["its own", "probable cause"]


def test_nothing_fatal_has_no_cause() -> None:
    assert roles() == []
    assert roles(group("LOSS_NAN", 0, 1.0), group("FP16_OVERFLOW_SKIP", 1, 2.0)) == ["its own", "warning"]


def test_another_failure_keeps_its_own_symptoms() -> None:
    words = roles(
        group("JAVA_CONNECT_REFUSED", 0, 1.0),
        group("DISK_FULL", 1, 500.0),
        group("CKPT_WRITE_FAILED", 2, 501.0),
    )
    assert words == ["probable cause", "its own", "follows DISK_FULL"]


def test_closure_is_transitive_and_ends() -> None:
    links = {"a": ["b"], "b": ["c", "a"], "c": ["a"]}
    assert closure("a", lambda code: links.get(code, ())) == {"b", "c"}
    assert closure("unknown", lambda code: ()) == frozenset()


GROUPS = st.lists(
    st.tuples(
        st.sampled_from(sorted(CATALOGUE.entries)),
        st.none() | st.floats(0, 1000),
        st.none() | st.sampled_from(["a", "b"]),
    ),
    max_size=8,
)


@given(GROUPS, st.randoms())
def test_roles_hold_together_and_do_not_depend_on_the_order_given(drawn, random) -> None:
    groups = [group(code, order, first, node) for order, (code, first, node) in enumerate(drawn)]
    words = assign_roles(groups, CATALOGUE.consequences)
    assert words.count("probable cause") == (1 if any(g.priority == 1 for g in groups) else 0)
    codes = {g.code for g in groups}
    for one, word in zip(groups, words, strict=True):
        assert (word == "warning") == (one.priority == 3)
        if word.startswith("follows "):
            assert word.removeprefix("follows ") in codes - {one.code}
    places = list(range(len(groups)))
    random.shuffle(places)
    shuffled = assign_roles([groups[place] for place in places], CATALOGUE.consequences)
    assert [shuffled[places.index(place)] for place in range(len(groups))] == words


@pytest.mark.parametrize("code", sorted(CATALOGUE.entries))
def test_a_single_error_is_its_own_cause_when_fatal(code) -> None:
    word = roles(group(code, 0))[0]
    assert word == {1: "probable cause", 2: "its own", 3: "warning"}[CATALOGUE.entries[code].level]
