"""Every format file carries samples; each is run here. A new format needs no other test."""

from __future__ import annotations

import math

import pytest

from trainmon.parsing.formats import builtin, read_format

SAMPLES = [(f.name, i, sample) for f in builtin() for i, sample in enumerate(f.samples)]


def flat(record):
    fields = {**record.extra, **record.values, **record.labels}
    for name in ("kind", "node", "rank", "level", "time", "code", "message", "reason"):
        fields[name] = getattr(record, name)
    return fields


@pytest.mark.parametrize("name, i, sample", SAMPLES, ids=[f"{name}-{i}" for name, i, _ in SAMPLES])
def test_sample(parse, name, i, sample):
    records = parse(sample["line"], keep_log=True)
    assert records, "the line gave no record"
    got = flat(records[0])
    for key, want in sample["gives"].items():
        if isinstance(want, float) and not isinstance(got.get(key), str) and got.get(key) is not None:
            same = math.isnan(got[key]) if math.isnan(want) else math.isclose(got[key], want, rel_tol=1e-9)
            assert same, f"{key}: {got[key]} instead of {want}"
        else:
            assert got.get(key) == want, key
    if got["kind"] in ("metrics", "eval"):
        assert records[0].format == name


@pytest.mark.parametrize("format_", builtin(), ids=lambda f: f.name)
def test_has_enough_samples(format_):
    assert len(format_.samples) >= 3
    assert format_.title


def test_names_are_unique():
    names = [f.name for f in builtin()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "text",
    ["name = 'x'", "name = 'x'\nengine='pattern'\n[[line]]\npattern='('", "=", "name='x'\nengine='json'\nline=[1]"],
)
def test_a_broken_file_is_a_value_error(text):
    with pytest.raises(ValueError):
        read_format(text)
