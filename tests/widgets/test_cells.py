"""The cell grid: nothing is split, nothing is wider than its row, no log text reaches the terminal as a command."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from trainmon.widgets.cells import Pen, clean, cut, expand, fit, graphemes, plain, width_of

NASTY = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("漢字テスト한글　👍🏽❤️\u0301\u200d\u202e\u0000\x1b\x9b\x07\t\r\n\ufe0f\ud800█⣿"),
        st.characters(min_codepoint=32, max_codepoint=126),
    ),
    max_size=40,
)


def shown_width(text: str) -> int:
    return sum(cell_len(char) for char in text)


@given(NASTY)
def test_clean_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    out = clean(text)
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs") for char in out)
    assert clean(out) == out


@given(NASTY)
def test_one_entry_a_cell(text: str) -> None:
    cells = graphemes(text)
    assert shown_width("".join(cells)) == len(cells) == width_of(text)


@given(NASTY, st.integers(-2, 50))
def test_a_cut_fits_and_keeps_what_fits(text: str, width: int) -> None:
    out = cut(text, width)
    assert shown_width(out) <= max(0, width)
    if width_of(text) <= width:
        assert out == clean(text) or width_of(out) == width_of(text)
    elif width > 0:
        assert out.endswith("…")


def test_a_wide_character_is_never_split() -> None:
    assert cut("漢字漢字", 5) == "漢字…"
    assert cut("漢字漢字", 4) == "漢…"
    pen = Pen(4)
    pen.put(1, "漢字")
    assert plain(pen.row()) == " 漢 "
    pen = Pen(6)
    pen.put(0, "漢字漢")
    pen.put(1, "x")
    assert plain(pen.row()) == " x字漢"


def test_combining_marks_stay_with_their_letter() -> None:
    assert graphemes("e\u0301a") == ["e\u0301", "a"]
    assert graphemes("\u0301a") == ["a"]


@given(
    st.integers(0, 30),
    st.lists(st.tuples(st.integers(-5, 35), NASTY, st.integers(0, 40)), max_size=6),
)
def test_a_row_is_exactly_as_wide_as_it_says(width: int, writes: list[tuple[int, str, int]]) -> None:
    pen = Pen(width)
    for x, text, limit in writes:
        pen.put(x, text, "muted", limit)
    assert len(pen.chars) == width
    assert shown_width(plain(pen.row())) == width


@given(st.lists(st.tuples(NASTY, st.sampled_from(["text", "muted"])), max_size=4), st.integers(0, 30))
def test_expanding_and_fitting_agree_with_the_width(row: list[tuple[str, str]], width: int) -> None:
    assert len(expand(row, width)) == width
    assert shown_width("".join(char for char, _ in expand(row, width))) == width
    assert shown_width(plain(fit(row, width))) == width
