"""One table of keys: bindings, footer, palette and help agree with it, and nothing forbidden is bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App
from textual.screen import Screen

from trainmon.tui import keys
from trainmon.tui.app import TrainmonApp
from trainmon.tui.gpu import GpuPage
from trainmon.tui.help import HelpPage, help_rows, sections
from trainmon.tui.lists import ListPage
from trainmon.tui.log import LogPage
from trainmon.tui.overview import Overview
from trainmon.tui.why import WhyPage
from trainmon.widgets.cells import plain

PAGES = (Overview, WhyPage, LogPage, ListPage, HelpPage, GpuPage)


def bound(cls: type) -> set[str]:
    return set(cls._merge_bindings().key_to_bindings)  # type: ignore[attr-defined]


@pytest.mark.parametrize("cls", [*PAGES, TrainmonApp])
def test_no_forbidden_key_is_bound(cls):
    assert not bound(cls) & keys.NEVER
    assert not {key for key in bound(cls) if key.startswith("alt+")}


def test_textuals_own_bindings_are_replaced():
    assert "ctrl+q" in bound(App) and "ctrl+c" in bound(Screen), "nothing left to replace: simplify"
    assert bound(TrainmonApp) == {"ctrl+c"}
    assert not TrainmonApp.ENABLE_COMMAND_PALETTE


@pytest.mark.parametrize("cls", PAGES)
def test_a_page_binds_what_the_table_says_and_can_do_it(cls):
    wanted = {key for row in keys.on_page(cls.PAGE) for key in row.keys}
    assert bound(cls) == wanted
    for row in keys.on_page(cls.PAGE):
        assert callable(getattr(cls, f"action_{row.action}", None)), row.action
    for _, action, _ in keys.commands(cls.PAGE):
        assert callable(getattr(cls, f"action_{action}", None)), action


def test_a_key_means_one_thing():
    meaning: dict[str, str] = {}
    for row in keys.KEYS:
        for key in row.keys:
            assert meaning.setdefault(key, row.action) == row.action, key


def test_help_lists_each_key_once():
    shown = [entry[0] for title, entries in sections() if title != "signs" for entry in entries]
    printed = " ".join(shown).split()
    wanted = [word for row in keys.KEYS for word in row.shown.split()]
    wanted += [word for name, _, _ in keys.COMMANDS for word in name.split()]
    assert sorted(printed) == sorted(wanted)
    assert {row.group for row in keys.KEYS} == set(keys.GROUPS)


@pytest.mark.parametrize("width", [30, 60, 89, 90, 100, 160])
def test_the_help_page_holds_every_row_at_any_width(width):
    text = "\n".join(plain(row) for row in help_rows(width))
    for row in keys.KEYS:
        assert row.shown in text
        if width >= 60 and width != 90:
            assert row.help in text, row.help


def test_function_keys_are_never_the_only_way():
    for row in keys.KEYS:
        if any(key.startswith("f") and key[1:].isdigit() for key in row.keys):
            assert len(row.keys) > 1 or row.name, row.shown


@given(st.text(max_size=5), st.lists(st.text(min_size=1, max_size=8), max_size=12))
def test_matching_gives_known_choices_once(typed, choices):
    found = keys.matching(typed, choices)
    assert len(found) == len(set(found))
    assert all(0 <= index < len(choices) for index in found)


def test_matching_prefers_the_beginning():
    names = ["next node", "mute", "mouse", "log"]
    assert [names[i] for i in keys.matching("m", names)] == ["mute", "mouse"]
    assert [names[i] for i in keys.matching("nd", names)] == ["next node"]
