"""Formats of one's own: what they read, what is refused, and what a pattern may cost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.catalogue import load as load_catalogue
from trainmon.parsing.custom import OwnFormat, OwnReader, build
from trainmon.parsing.formats import builtin
from trainmon.parsing.guard import STRIKES, Guarded, PatternError, _scan, runs_away
from trainmon.parsing.parser import FileParser

EXAMPLE = r"iter (?P<step>\d+)/(?P<total_steps>\d+) loss=(?P<loss>\S+) lr=(?P<learning_rate>\S+)"


def made(**data) -> OwnFormat:
    format_, problems = build({"name": "mine", **data})
    assert format_ is not None, problems
    return format_


def refused(**data) -> list[tuple[str, str]]:
    format_, problems = build({"name": "mine", **data})
    assert format_ is None
    return problems


def read(text: str, *formats: OwnFormat, keep_log: bool = False):
    parser = FileParser("x.log", formats=(*formats, *builtin()), classify=load_catalogue(), keep_log=keep_log)
    return [*parser.feed(text.encode(), 0), *parser.finish()]


def test_named_groups_are_fields_behind_any_prefix() -> None:
    (record,) = read("2025-04-05 10:00:00 [rank3]: iter 7/90 loss=2.5 lr=1e-4\n", made(pattern=EXAMPLE))
    assert (record.kind, record.format, record.rank, record.line) == ("metrics", "mine", 3, 1)
    assert record.values == {"step": 7, "total_steps": 90, "loss": 2.5, "learning_rate": 1e-4}
    assert record.time == 1743847200.0


def test_a_pattern_for_the_beginning_also_finds_that_of_the_message() -> None:
    mine = made(pattern=r"^iter (?P<step>\d+) loss=(?P<loss>\S+)")
    for front in ("", "[rank3]: ", "2025-04-05 10:00:00 INFO ", "3: "):
        (record,) = read(f"{front}iter 7 loss=2.5\n", mine)
        assert (record.format, record.values) == ("mine", {"step": 7, "loss": 2.5})
    assert not any(record.format == "mine" for record in read("an iter 7 loss=2.5\n", mine))


def test_units_names_pairs_and_extra() -> None:
    format_ = made(
        pattern=r"^~ (?P<n>\d+) cost (?P<c>\S+) took (?P<step_time_s>\S+) mem (?P<gpu_memory_mb>\S+) (?P<foo>\w+)",
        names={"n": "step", "c": "loss"},
        units={"step_time_s": "ms", "gpu_memory_mb": "gb"},
        pairs="equals",
    )
    (record,) = read("~ 4 cost 1.5 took 250 mem 2 blue zap=9\n", format_)
    assert record.values == {"step": 4, "loss": 1.5, "step_time_s": 0.25, "gpu_memory_mb": 2048.0}
    assert record.extra == {"foo": "blue", "zap": 9}


def test_json_keys_with_names_units_and_kind() -> None:
    format_ = made(
        keys=["it", "cl"], names={"it": "step", "cl": "loss", "dur": "step_time_s"}, units={"dur": "ms"}, kind="eval"
    )
    (record,) = read('{"it": 3, "cl": 2.25, "dur": 500, "other": 1}\n', format_)
    assert (record.kind, record.format) == ("eval", "mine")
    assert record.values == {"step": 3, "eval_loss": 2.25, "step_time_s": 0.5}
    assert record.extra == {"other": 1}


def test_it_wins_over_what_is_built_in_also_where_that_would_learn_to_be_first() -> None:
    line = "iteration 20/ 1000 | elapsed time per iteration (ms): 12 | learning rate: 1e-4 | lm loss: 3.5 |\n"
    mine = made(pattern=r"iteration (?P<step>\d+)/.*lm loss: (?P<eval_loss>\S+)", kind="eval")
    records = read(line * 5, mine)
    assert [record.format for record in records] == ["mine"] * 5
    assert records[4].values == {"step": 20, "eval_loss": 3.5}


def test_a_line_without_any_known_word_reaches_it() -> None:
    (record,) = read("abc\nqq=7 zz=3\nabc\n", made(pattern=r"qq=(?P<step>\d+) zz=(?P<reward>\d+)"))
    assert (record.line, record.values) == (2, {"step": 7, "reward": 3.0})


def test_only_what_it_names_is_a_record_even_if_nothing_is_canonical() -> None:
    (record,) = read("ping 7 ms to nowhere\n", made(pattern=r"ping (?P<ping>\d+) ms"))
    assert (record.kind, record.extra, record.values) == ("metrics", {"ping": 7}, {})


def test_messages_and_errors_of_an_application() -> None:
    format_ = made(pattern=r"^~(?P<level>[A-Z]+)~(?P<time>\S+)~ (?P<message>.*)")
    text = (
        "~INFO~2025-04-05T10:00:00Z~ calm\n~ERROR~2025-04-05T10:00:01Z~ CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    (error,) = read(text, format_)
    assert (error.kind, error.code, error.level, error.time) == ("error", "CUDA_OOM", "ERROR", 1743847201.0)
    calm, _ = read(text, format_, keep_log=True)
    assert (calm.kind, calm.level, calm.message, calm.format) == ("log", "INFO", "calm", "mine")
    bang = made(pattern=r"^!!! (?P<message>.*)", kind="error")
    (error,) = read("!!! something burst\n", bang)
    assert (error.kind, error.level, error.code) == ("error", "ERROR", "UNKNOWN_ERROR")


def test_a_line_of_its_shape_without_a_number_is_put_aside() -> None:
    mine = made(pattern=EXAMPLE)
    (record,) = read("iter 7/90 loss=abc lr=1e-4\n", mine)
    assert (record.kind, record.reason) == ("quarantine", "no number for loss")
    (record,) = read("iter 7/90 loss=nan lr=n/a\n", mine)
    assert record.kind == "metrics" and "learning_rate" not in record.values


@given(st.integers(1, 40))
def test_any_chunks_give_the_same(size: int) -> None:
    text = "".join(f"iter {n}/90 loss={n / 7:.3f} lr=1e-4\nchatter {n}\n" for n in range(20)).encode()
    parser = FileParser("x", formats=(made(pattern=EXAMPLE), *builtin()))
    found = []
    for start in range(0, len(text), size):
        found += parser.feed(text[start : start + size], start)
    found += parser.finish()
    assert [(record.line, record.values["step"]) for record in found] == [(2 * n + 1, n) for n in range(20)]


@pytest.mark.parametrize(
    ("data", "key", "words"),
    [
        ({}, "pattern", "is missing"),
        ({"pattern": EXAMPLE, "keys": ["a"]}, "pattern", "one of them"),
        ({"pattern": "(?P<step>\\d+"}, "pattern", "does not compile: missing ) at position 13"),
        ({"pattern": "step \\d+"}, "pattern", "no named group"),
        ({"pattern": "(?P<loss>.*)"}, "pattern", "matches an empty line"),
        ({"pattern": "(?P<x>a)" * 600}, "pattern", "longer than 4,000"),
        ({"pattern": "(?P<x>(((a{99}){99}){99}){9})"}, "pattern", "repeats a part of itself 8,732,691 times"),
        ({"pattern": 7}, "pattern", "should be a text"),
        ({"patern": EXAMPLE, "pattern": EXAMPLE}, "patern", 'did you mean "pattern"?'),
        ({"pattern": EXAMPLE, "kind": "metric"}, "kind", 'did you mean "metrics"?'),
        ({"keys": ["a"], "kind": "log"}, "kind", "should be one of metrics"),
        ({"pattern": EXAMPLE, "pairs": "all"}, "pairs", "should be one of none"),
        ({"pattern": EXAMPLE, "units": {"loss": "ms"}}, "units", "a factor such as"),
        ({"pattern": EXAMPLE, "units": {"foo": "ms"}}, "units", "no field with a unit"),
        ({"pattern": EXAMPLE, "units": {"mfu": "fraction"}}, "units", "does not read"),
        ({"pattern": EXAMPLE, "name": "a b"}, "name", "short name"),
        ({"pattern": EXAMPLE, "sample": ["x"]}, "sample", "should be tables"),
        ({"pattern": EXAMPLE, "names": {"a": 1}}, "names", "should be a table"),
    ],
)
def test_what_is_refused_and_in_which_words(data: dict, key: str, words: str) -> None:
    problems = refused(**data)
    assert any(name == key and words in text for name, text in problems), problems


def test_a_catastrophic_pattern_is_bounded_and_switched_off_with_one_message() -> None:
    mine = made(pattern=r"x(?P<loss>(a|aa)+)$")
    said: list[str] = []
    mine.patterns[0].tell = said.append
    line = "x" + "a" * 400 + "!\n"
    parser = FileParser("x.log", formats=(mine, *builtin()))
    at = 0
    for number in range(1, 3 * STRIKES):
        parser.feed(line.encode(), at)  # without a limit it would not end in our lifetime
        at += len(line)
        assert mine.patterns[0].off is (number >= STRIKES)
    assert mine.patterns[0].off
    assert len(said) == 1 and said[0].startswith('format "mine" is switched off: it took more than 20 ms')
    assert [r.format for r in parser.feed(b"step 3 loss: 2.0 lr: 1e-4\n", at)] == ["generic"]


def test_many_bad_patterns_share_the_time_of_a_line() -> None:
    formats = [made(name=f"m{n}", pattern=rf"x(?P<loss>(a|a{'a' * (n % 3)})+)$") for n in range(30)]
    reader = OwnReader(formats)
    assert reader.read("x" + "a" * 400 + "!") is None  # thirty limits of their own would be 600 ms
    assert sum(format_.patterns[0]._strikes for format_ in formats) == 1


def test_a_pattern_that_is_slow_on_every_line_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def tick() -> float:
        clock[0] += 0.005
        return clock[0]

    monkeypatch.setattr("trainmon.parsing.guard.perf_counter", tick)
    pattern = Guarded(EXAMPLE, 'format "x"')
    said: list[str] = []
    pattern.tell = said.append
    for _ in range(400):
        pattern.search("a line")
    assert pattern.off and said == [
        'format "x" is switched off: it takes 5.0 ms a line (parts of it can match the same text in many ways; '
        "see docs/formats.md)"
    ]


def test_a_trial_tells_patterns_that_run_away() -> None:
    assert runs_away(Guarded(r"x(?P<loss>(a|aa)+)$", "x"))
    assert runs_away(Guarded(r"(?P<loss>(\d+)+)$", "x"))
    assert not runs_away(Guarded(EXAMPLE, "x"))


def test_time_outs_now_and_then_are_forgiven() -> None:
    pattern = Guarded(r"q(?P<loss>(a|aa)+)$", "x")
    evil = "q" + "a" * 400 + "!"
    for _ in range(STRIKES + 2):
        assert pattern.search(evil) is None
        for _ in range(1000):
            pattern.search("nothing")
    assert not pattern.off


@pytest.mark.parametrize(
    ("source", "literal"),
    [
        (EXAMPLE, " loss="),
        (r"\[foo\] (?P<x>\d+)", "[foo] "),
        (r"abc?(?P<x>d)", "ab"),
        (r"abc{0,3}(?P<x>d)", "ab"),
        (r"(?i)loss (?P<x>.)", ""),
        (r"one|two(?P<x>.)", ""),
        (r"(?:one|two) three(?P<x>.)", " three"),
        (r"[xyz]loss(?P<a>\d)", "loss"),
        (r"\Aab\x41cd(?P<x>.)", ""),
    ],
)
def test_the_text_that_every_match_holds(source: str, literal: str) -> None:
    assert _scan(source)[0] == literal


ITEMS = ("a", "b", "c", r"\d", r"\.", "[ab]", "(?:ab)", "(a|b)", "(?P<x>c)", "{")
MANY = ("", "", "", "?", "*", "+", "{1,2}", "{0,3}", "{2}")


@given(st.lists(st.tuples(st.sampled_from(ITEMS), st.sampled_from(MANY)), min_size=1, max_size=8), st.data())
def test_no_literal_is_ever_wrong(parts: list[tuple[str, str]], data: st.DataObject) -> None:
    source, seen = "", False
    for item, many in parts:
        if item == "(?P<x>c)" and seen:
            continue
        seen = seen or item == "(?P<x>c)"
        source += item + many
    try:
        pattern = re.compile(source, re.ASCII)
    except re.error:
        return
    literal = _scan(source)[0]
    assert literal in data.draw(st.from_regex(pattern))


@given(st.text(alphabet="()[]{}?*+|\\^$.abP<>:=!-,019 ", max_size=40))
def test_no_pattern_breaks_the_guard(source: str) -> None:
    try:
        pattern = Guarded(source, "x")
    except PatternError as error:
        assert "\n" not in str(error)
        return
    for text in ("", "ab" * 50, "(" * 50, "aaa19 -"):
        match = pattern.search(text)
        assert match is None or pattern.literal in text


def test_the_gate_is_open_without_a_literal_and_shut_without_formats() -> None:
    assert not OwnReader(builtin()).on
    assert OwnReader([made(pattern=r"(?P<step>\d+)")]).might(b"whatever")
    gate = OwnReader([made(pattern=EXAMPLE), made(pattern=r"(?P<step>\d+) apples", needs="green")])
    assert gate.might(b"x loss= y") and gate.might(b"green") and not gate.might(b"red apples")
