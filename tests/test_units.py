"""Numbers as text: the forms of the design, and that no number whatever breaks a column."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon import units

NUMBERS = st.one_of(
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(min_value=-1e6, max_value=1e6),
    st.integers(min_value=-(10**18), max_value=10**18).map(float),
)

FORMS = {
    "loss": units.loss,
    "learning_rate": units.learning_rate,
    "number": units.number,
    "seconds": units.seconds,
    "wait_seconds": units.wait_seconds,
    "per_second": units.per_second,
    "memory_mb": units.memory,
    "percent": units.percent,
    "mfu": units.mfu,
    "change": units.change,
    "celsius": units.celsius,
    "watts": units.watts,
    "mhz": units.mhz,
    "duration": units.duration,
    "forecast": units.forecast,
    "clock": units.clock,
}


@pytest.mark.parametrize("name", sorted(FORMS))
@given(value=NUMBERS)
def test_no_value_is_wider_than_its_column(name: str, value: float | None) -> None:
    text = FORMS[name](value)
    assert 0 < len(text) <= units.WIDTHS[name], (value, text)


@given(value=NUMBERS, unit=st.sampled_from([*units.FORMATS, "furlongs"]))
def test_every_unit_formats_every_number(value: float | None, unit: str) -> None:
    text = units.format_value(unit, value)
    assert text
    assert value is not None or text == units.NONE


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (units.loss, 1.984, "1.984"),
        (units.loss, 143.2, "143.2"),
        (units.loss, 99.9999, "100.0"),
        (units.loss, -0.5, "−0.500"),
        (units.loss, math.nan, "NaN"),
        (units.loss, math.inf, "inf"),
        (units.loss, -math.inf, "−inf"),
        (units.learning_rate, 4.48e-5, "4.48e-05"),
        (units.learning_rate, 0.0, "0"),
        (units.number, 1.91, "1.91"),
        (units.number, 38.24, "38.2"),
        (units.number, 0.0, "0.00"),
        (units.seconds, 3.41, "3.41 s"),
        (units.seconds, 0.31, "310 ms"),
        (units.seconds, 11.0, "11.0 s"),
        (units.seconds, 0.9996, "1.00 s"),
        (units.seconds, 1440.0, "24 min"),
        (units.wait_seconds, 0.06, "0.06 s"),
        (units.per_second, 154_000, "154 k"),
        (units.per_second, 1_520_000, "1.52 M"),
        (units.per_second, 999_600, "1.00 M"),
        (units.per_second, 3.25, "3.25"),
        (units.count, 1120, "1,120"),
        (units.memory, 76.8 * 1024, "76.8"),
        (units.memory_text, 214, "214 MiB"),
        (units.memory_text, 76.8 * 1024, "76.8 GiB"),
        (units.memory_total, 80 * 1024, "80"),
        (units.memory_total, 81559, "79.6"),
        (units.percent, 22.4, "22 %"),
        (units.percent, -0.4, "0 %"),
        (units.wait_seconds, -0.0, "0.00 s"),
        (units.mfu, 35.2, "35.2 %"),
        (units.change, 14, "+14 %"),
        (units.change, -1, "−1 %"),
        (units.change, 0.3, "0 %"),
        (units.change, -0.3, "0 %"),
        (units.change, 1000, "×11"),
        (units.points, -4.4, "4.4 pt"),
        (units.celsius, 87.4, "87"),
        (units.mhz, 1410, "1,410"),
        (units.clock, 1743851777.0, "11:16:17"),
        (units.duration, 2472, "41 m 12 s"),
        (units.duration, 13200, "3 h 40 m"),
        (units.duration, 5 * 86400 + 7 * 3600, "5 d 07 h"),
        (units.duration, 12.9, "12 s"),
        (units.duration, 68, "1 m 08 s"),
        (units.forecast, 290, "4 min"),
        (units.age, 74, "1 m"),
        (units.age, 44, "30 s"),
        (units.age, 614, "10 m"),
        (units.age, 90_000, "25 h"),
        (units.file_size, 0, "0 B"),
        (units.file_size, 820_000, "820 kB"),
        (units.file_size, 1.2e12, "1.2 TB"),
        (units.traffic, 0.01, "0 MB/s"),
        (units.traffic, 0.3, "0.3 MB/s"),
        (units.traffic, 999.4, "999 MB/s"),
        (units.traffic, 48_000, "48 GB/s"),
        (units.depth, 0.003, "0"),
        (units.depth, 4.78, "4.8"),
        (units.depth, 32.4, "32"),
    ],
)
def test_forms_of_the_design(form, value, text) -> None:
    assert form(value) == text


def test_zero_has_no_sign() -> None:
    for form in units.FORMATS.values():
        text = form(-0.0)
        assert text == units.NONE or not text.startswith(("-", "−")), text


def test_what_cannot_be_had_is_a_dash_everywhere() -> None:
    for form in [
        *units.FORMATS.values(),
        units.age,
        units.file_size,
        units.traffic,
        units.depth,
        units.bare_seconds,
        units.memory_total,
    ]:
        assert form(None) == "–"


@given(value=st.floats(min_value=0, max_value=3e5), later=st.floats(min_value=0, max_value=3e5))
def test_an_age_changes_seldom_and_never_says_more_than_passed(value: float, later: float) -> None:
    factor = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = units.age(value).split(" ")
    assert int(number) * factor[unit] <= value
    if value <= later < 3600:
        number_later, unit_later = units.age(later).split(" ")
        assert int(number) * factor[unit] <= int(number_later) * factor[unit_later]
