"""The alert book: announced once, worst first, quiet when it should be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.alerts.policy import AlertBook, calm_age
from trainmon.model import Incident, Severity

T = 1_764_500_000.0


def incident(
    key: str = "stall", severity: Severity = "critical", kind: str = "", node: str | None = None, **more: object
) -> Incident:
    kind = kind or key.split(":")[0]
    found = Incident(
        key=key,
        kind=kind,
        severity=severity,
        title=kind.upper(),
        who=node or "run",
        measured="m",
        node=node,
        start=T,
        detected=T,
    )
    return replace(found, **more)  # type: ignore[arg-type]


def test_a_live_critical_alert_is_fresh_for_three_seconds_and_only_once() -> None:
    book = AlertBook()
    book.apply(incident(), T)
    (view,) = book.views(T)
    assert (view.fresh, view.state, view.id) == (True, "firing", "stall")
    assert book.next_change(T) == pytest.approx(3.0)
    assert book.views(T + 2.9)[0].fresh
    assert not book.views(T + 3.0)[0].fresh
    assert book.next_change(T + 3.0) is None
    for s in range(4, 100):
        book.apply(incident(measured=f"no step for {s} s"), T + s)
        assert not book.views(T + s)[0].fresh
    assert book.views(T + 100)[0].measured == "no step for 99 s"


def test_warnings_and_history_never_ring() -> None:
    book = AlertBook()
    book.apply(incident("straggler:a", "warning", node="a"), T)
    book.apply(incident("loss_nan"), T, live=False)
    book.apply(incident("loss_nan", measured="more"), T + 1, live=True)
    assert not any(v.fresh for v in book.views(T + 1))


def test_what_history_left_open_rings_when_it_gets_worse_now() -> None:
    book = AlertBook()
    book.apply(incident("near_oom:a", "warning", node="a"), T, live=False)
    assert not book.views(T)[0].fresh
    book.apply(incident("near_oom:a", "critical", node="a"), T + 5)
    assert book.views(T + 5)[0].fresh


def test_a_warning_that_becomes_critical_rings_then() -> None:
    book = AlertBook()
    book.apply(incident("near_oom:a", "warning", node="a"), T)
    book.apply(incident("near_oom:a", "critical", node="a"), T + 50)
    assert book.views(T + 50)[0].fresh
    assert len(book.views(T + 50)) == 1


def test_worst_first_then_newest_and_muted_last() -> None:
    book = AlertBook()
    book.apply(incident("loss_nan"), T)
    book.apply(incident("stall"), T + 20)
    book.apply(incident("straggler:a", "warning", node="a"), T + 40)
    assert [v.id for v in book.views(T + 41)] == ["stall", "loss_nan", "straggler:a"]
    book.mute("stall")
    assert [v.id for v in book.views(T + 41)] == ["loss_nan", "straggler:a", "stall"]


def test_resolved_is_shown_for_ten_seconds_with_its_sentence() -> None:
    book = AlertBook()
    book.apply(incident(), T)
    book.apply(incident(end=T + 60, resolution="goes on after 1 m"), T + 60)
    (view,) = book.views(T + 61)
    assert (view.state, view.resolution, view.resolved) == ("resolved", "goes on after 1 m", T + 60)
    assert book.calm(T + 61) == ""
    assert book.next_change(T + 61) == pytest.approx(9.0)
    assert book.views(T + 70) == ()
    assert book.calm(T + 70) == "healthy · last alert resolved 10:54:20"
    assert [v.id for v in book.history(T + 70)] == ["stall"]


def test_the_same_again_within_a_minute_is_opened_quietly_later_it_is_news() -> None:
    book = AlertBook()
    book.apply(incident(), T)
    book.apply(incident(end=T + 10), T + 10)
    book.views(T + 30)
    book.apply(incident(start=T + 40), T + 40)
    (view,) = book.views(T + 40)
    assert (view.state, view.fresh, view.since) == ("firing", False, T)
    book.apply(incident(end=T + 50), T + 50)
    book.views(T + 200)
    book.apply(incident(start=T + 201), T + 201)
    (view,) = book.views(T + 201)
    assert (view.fresh, view.since) == (True, T + 201)


def test_acknowledged_stays_and_is_steady() -> None:
    book = AlertBook()
    book.apply(incident(), T)
    assert book.acknowledge("stall")
    assert not book.acknowledge("stall")
    (view,) = book.views(T + 1)
    assert (view.state, view.fresh) == ("acknowledged", False)
    book.apply(incident(measured="still"), T + 5)
    assert book.views(T + 5)[0].state == "acknowledged"


def test_muted_until_resolved() -> None:
    book = AlertBook()
    book.apply(incident(), T)
    assert book.mute("stall")
    assert book.views(T + 1)[0].state == "muted"
    assert book.unmute("stall")
    assert (book.views(T + 2)[0].state, book.views(T + 2)[0].fresh) == ("firing", True)
    book.mute("stall")
    book.apply(incident(end=T + 10), T + 10)
    assert book.views(T + 11)[0].state == "resolved"
    book.views(T + 100)
    book.apply(incident(start=T + 200), T + 200)
    assert book.views(T + 200)[0].state == "firing", "mute ends with the alert"
    assert not book.mute("no such")
    assert not book.unmute("stall")


def test_unmuting_rings_no_second_bell() -> None:
    book = AlertBook()
    book.apply(incident("near_oom:a", "warning", node="a"), T)
    book.mute("near_oom:a")
    book.apply(incident("near_oom:a", "critical", node="a"), T + 10)
    book.unmute("near_oom:a")
    assert not any(book.views(T + 10 + s)[0].fresh for s in range(5))


def test_the_same_kind_on_many_nodes_is_one_alert_with_a_count() -> None:
    book = AlertBook()
    for i in range(56):
        book.apply(incident(f"node_silent:w{i}", "warning", node=f"w{i}"), T + i * 0.05)
    (view,) = book.views(T + 3)
    assert (view.count, view.who) == (56, "56 nodes")
    assert book.id_of("node_silent:w7") == view.id
    for i in range(56):
        book.apply(incident(f"node_silent:w{i}", "warning", node=f"w{i}", end=T + 9), T + 9)
        assert book.views(T + 9)[0].state == ("resolved" if i == 55 else "firing")


def test_the_worst_of_a_group_speaks_for_it() -> None:
    book = AlertBook()
    book.apply(incident("near_oom:a", "warning", node="a"), T)
    book.apply(incident("near_oom:b", "critical", node="b", measured="worse"), T + 1)
    (view,) = book.views(T + 1)
    assert (view.severity, view.measured, view.who, view.fresh) == ("critical", "worse", "2 nodes, worst b", True)
    book.apply(incident("near_oom:b", "critical", node="b", end=T + 2), T + 2)
    assert (book.views(T + 3)[0].severity, book.views(T + 3)[0].count) == ("warning", 1)


def test_a_second_critical_node_much_later_is_news_of_its_own() -> None:
    book = AlertBook()
    book.apply(incident("near_oom:a", node="a"), T)
    book.apply(incident("near_oom:b", node="b"), T + 100)
    assert [(v.id, v.fresh) for v in book.views(T + 100)] == [("near_oom:b", True), ("near_oom:a", False)]


def test_what_has_given_way_to_something_worse_is_not_called_resolved() -> None:
    book = AlertBook()
    book.apply(incident("near_oom:a", node="a"), T)
    book.apply(incident("fatal:x", kind="oom"), T + 9)
    book.apply(incident("near_oom:a", node="a", end=T + 9, evidence=(("superseded", "CUDA_OOM"),)), T + 9)
    assert [v.id for v in book.views(T + 9)] == ["fatal:x"]
    assert {v.id for v in book.history(T + 9)} == {"near_oom:a", "fatal:x"}


def test_incidents_that_history_has_closed_are_only_in_the_history() -> None:
    book = AlertBook()
    book.apply(incident("stall:100", end=T - 500, kind="stall"), T, live=False)
    assert book.views(T) == ()
    assert book.calm(T).startswith("healthy")
    assert [v.id for v in book.history(T)] == ["stall:100"]
    book.apply(incident("never heard of", end=T), T)
    assert book.views(T) == ()


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_setting_the_clock_leaves_nothing_on_the_screen_for_an_hour(by: float) -> None:
    book = AlertBook()
    book.apply(incident(), T)
    assert book.views(T + 1)[0].fresh
    t = T + 1 + by
    for s in range(8):
        book.views(t + s)
    assert not book.views(t + 8)[0].fresh
    book.apply(incident(end=t + 9), t + 9)
    assert book.views(t + 20) == ()


def test_calm_sentence() -> None:
    book = AlertBook()
    assert book.calm(T) == "healthy · no alerts since the start"
    assert book.calm(T + 471, started=T) == "healthy for 7 m · no alerts since the start"
    assert (
        book.calm(T + 2475, {"eval": 1, "checkpoint": 1}, started=T)
        == "healthy for 40 m · no alerts since the start · one eval and one checkpoint recognised as planned pauses"
    )
    assert book.calm(T, {"checkpoint": 1}).endswith("one checkpoint recognised as a planned pause")
    assert book.calm(T, {"eval": 12}).endswith("12 evals recognised as planned pauses")
    book.apply(incident(), T)
    assert book.calm(T) == ""


def test_an_idle_sentence_stands_still() -> None:
    book = AlertBook()
    told = {book.calm(T + s, started=T - 7200) for s in range(0, 3000, 10)}
    assert len(told) <= 2
    assert [calm_age(s) for s in (59, 65, 900, 3700, 7100, 86_400)] == [
        "0 m",
        "1 m",
        "15 m",
        "1 h 00 m",
        "1 h 55 m",
        "24 h",
    ]


def test_memory_is_bounded_and_critical_ones_stay() -> None:
    book = AlertBook()
    book.apply(incident("stall"), T)
    for i in range(3000):
        book.apply(incident(f"k{i}", "warning"), T + i)
        if i % 2:
            book.apply(incident(f"k{i}", "warning", end=T + i), T + i)
    assert len(book._alerts) <= 512
    assert len(book._of_key) <= 1100
    assert len(book.history(T + 3000)) == 500
    assert book.views(T + 3000)[0].id == "stall"


def test_places_and_evidence_are_words() -> None:
    book = AlertBook(lambda i: (3, f"{i.source}:{i.line:,}"))
    book.apply(
        incident(source="worker-2.log", line=1223, evidence=(("code", "CUDA_OOM"), ("level_mb", 78643.2), ("n", 2))), T
    )
    (view,) = book.views(T)
    assert (view.source, view.place, view.code) == (3, "worker-2.log:1,223", "CUDA_OOM")
    assert view.evidence == (("code", "CUDA_OOM"), ("level mb", "78,643.2"), ("n", "2"))


keys = st.sampled_from(["stall", "loss_nan", "near_oom:a", "near_oom:b", "straggler:a", "straggler:b", "node_silent:c"])
doings = st.one_of(
    st.tuples(st.just("fire"), keys, st.sampled_from(["critical", "warning"]), st.booleans()),
    st.tuples(st.just("end"), keys, st.just(""), st.booleans()),
    st.tuples(st.sampled_from(["acknowledge", "mute", "unmute"]), keys, st.just(""), st.just(True)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(doings, st.floats(0.0, 40.0)), max_size=50))
def test_whatever_happens_each_alert_rings_at_most_once_and_order_holds(
    told: list[tuple[tuple[str, str, str, bool], float]],
) -> None:
    book = AlertBook()
    now = T
    open_: set[str] = set()
    rang: dict[str, float] = {}
    for (what, key, severity, live), wait in told:
        now += wait
        kind = key.split(":")[0]
        node = key.partition(":")[2] or None
        if what == "fire":
            book.apply(incident(key, severity, kind, node), now, live)  # type: ignore[arg-type]
            open_.add(key)
        elif what == "end":
            book.apply(incident(key, "warning", kind, node, end=now), now, live)
            open_.discard(key)
        else:
            getattr(book, what)(book.id_of(key) or key)
        views = book.views(now)
        firing = [v for v in views if v.state != "resolved"]
        assert bool(firing) == bool(open_)
        assert sum(v.count for v in firing) == len(open_)
        plain = [v for v in views if v.state in ("firing", "acknowledged")]
        ranks = [{"critical": 0, "warning": 1}[v.severity] for v in plain]
        assert ranks == sorted(ranks)
        for view in views:
            if view.fresh:
                assert view.severity == "critical" or view.count > 0
                begun = rang.setdefault(view.id + str(view.since), now)
                assert now - begun < 3.0, "one bell an alert"
        assert (book.calm(now) == "") == bool(views)


def test_faults_of_machines_are_grouped_by_what_they_say() -> None:
    book = AlertBook()
    for n in range(4):
        down = incident(f"gpu_fault:worker-{n}:gpu0:fabric", "warning", node=f"worker-{n}")
        book.apply(replace(down, title="FABRIC DOWN", gpu=0), T + n)
    lost = replace(incident("gpu_fault:worker-9:gpu5", node="worker-9"), title="GPU LOST", gpu=5)
    book.apply(lost, T + 4)
    views = book.views(T + 4)
    assert [(v.title, v.count) for v in views] == [("GPU LOST", 1), ("FABRIC DOWN", 4)]
    assert views[1].who.startswith("4 nodes, worst worker-")
