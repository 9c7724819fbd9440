"""The one table of keys. Textual's bindings, the footers, the palette and the help page all come from it.

A key means the same on every page. Keys whose function is not built yet are not in the table at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.binding import Binding

OVERVIEW, WHY, LOG, LIST, HELP, GPU = "overview", "why", "log", "list", "help", "gpu"
"""The pages: the dashboard, one alert or error, one raw file, sources or unreadable lines, help, and one GPU."""
EVERYWHERE = frozenset({OVERVIEW, WHY, LOG, LIST, HELP, GPU})

NEVER = frozenset(
    {
        "ctrl+a", "ctrl+b", "ctrl+s", "ctrl+q", "ctrl+z", "ctrl+backslash", "ctrl+space", "ctrl+at", "ctrl+p",
        "ctrl+underscore",
    }
)  # fmt: skip
"""Keys that belong to tmux, screen, flow control, the shell, or would be hit by mistake: bound by nobody here."""


@dataclass(frozen=True, slots=True)
class Key:
    """One row of the table.

    Attributes:
        keys: Textual's names of the keys.
        shown: How they are printed in footer and help.
        action: `action_<name>` of the page, without arguments.
        name: What one types after `:`; empty for keys that only move.
        help: What they do, for the help page; empty where it stands in the row before (next, previous).
        group: Section of the help page.
        label: Word in the footer; empty when it is not shown there.
        pages: Where it works.
        rank: Order in the footer, small first; `q` and `?` are kept by the footer itself.
    """

    keys: tuple[str, ...]
    shown: str
    action: str
    name: str
    help: str
    group: str
    label: str = ""
    pages: frozenset[str] = EVERYWHERE
    rank: int = 50


_OVERVIEW = frozenset({OVERVIEW})
_LOG = frozenset({LOG})
_SEARCHED = frozenset({OVERVIEW, LOG, HELP})
_TOLD = frozenset({OVERVIEW, WHY, LOG, GPU})
_GPU = frozenset({GPU})

GROUPS = ("everywhere", "move", "find", "go to", "alerts")
"""Sections of the help page, in its order."""

KEYS: tuple[Key, ...] = (
    Key(("question_mark",), "?", "help", "help", "this page", "everywhere", "help", rank=2),
    Key(("q",), "q", "back", "quit", "back; q on the overview quits", "everywhere", "quit", rank=99),
    Key(("escape",), "Esc", "leave", "", "", "everywhere", "back", rank=1),
    Key(("ctrl+c",), "^C", "quit_now", "", "quit at once", "everywhere"),
    Key(("tab",), "Tab", "next_panel", "next panel", "next, previous panel", "everywhere", "panel", _OVERVIEW, 21),
    Key(("shift+tab",), "Shift-Tab", "previous_panel", "previous panel", "", "everywhere", pages=_OVERVIEW),
    Key(("enter",), "⏎", "open", "open", "open what is selected", "everywhere", "open",
        frozenset({OVERVIEW, WHY, LIST}), 22),
    Key(("z",), "z", "zoom", "maximise", "panel full screen, and back", "everywhere", "full", _OVERVIEW, 40),
    Key(("colon",), ":", "palette", "", "every action by name", "everywhere", "command", rank=45),
    Key(("p",), "p", "pause", "pause", "hold the screen, not the reading", "everywhere", "pause", _TOLD, 36),
    Key(("y",), "y", "copy", "copy", "copy as text, also to a file", "everywhere", "copy",
        frozenset({OVERVIEW, WHY, LOG, LIST, GPU}), 41),
    Key(("ctrl+l",), "^L", "redraw", "redraw", "draw everything anew", "everywhere"),
    Key(("f2",), "F2", "mouse", "mouse", "mouse on or off, also :mouse", "everywhere"),
    Key(("up", "k"), "↑ k", "up", "", "row up, down", "move"),
    Key(("down", "j"), "↓ j", "down", "", "", "move"),
    Key(("left", "h"), "← h", "left", "", "sideways; l: a GPU's log", "move", pages=_LOG),
    Key(("right", "l"), "→ l", "right", "", "", "move", pages=_LOG | _GPU, rank=28),
    Key(("pageup", "b"), "PgUp b", "page_up", "", "page up, down", "move"),
    Key(("pagedown", "space"), "PgDn space", "page_down", "", "", "move"),
    Key(("ctrl+u",), "^U", "half_up", "", "half a page up, down", "move"),
    Key(("ctrl+d",), "^D", "half_down", "", "", "move"),
    Key(("g", "home"), "g Home", "first", "", "first, last", "move"),
    Key(("G", "end"), "G End", "last", "", "", "move"),
    Key(("left_square_bracket",), "[", "previous_one", "previous node", "back, on: node, GPU, alert, file",
        "move", pages=_TOLD),
    Key(("right_square_bracket",), "]", "next_one", "next node", "", "move", pages=_TOLD),
    Key(("r",), "r", "pick", "pick a node", "pick a node or file by typing", "move", "node",
        frozenset({OVERVIEW, LOG}), 38),
    Key(("1",), "1", "overview", "overview", "overview", "go to"),
    Key(("2",), "2", "charts", "charts", "charts", "go to", "charts", rank=34),
    Key(("3",), "3", "gpus", "GPUs", "GPUs", "go to", "GPUs", rank=33),
    Key(("4",), "4", "nodes", "nodes", "nodes", "go to", "nodes", rank=31),
    Key(("5",), "5", "errors", "errors and alerts", "errors and alerts", "go to", "errors", rank=30),
    Key(("6",), "6", "log", "log", "log", "go to", "log", rank=32),
    Key(("0",), "0", "reset", "reset the layout", "everything as at the start", "go to", pages=_OVERVIEW),
    Key(("slash",), "/", "search", "search", "search the file or this panel", "find", "search", _SEARCHED, 20),
    Key(("n",), "n", "next_match", "next match", "next, previous match", "find", "match", _SEARCHED, 25),
    Key(("N",), "N", "previous_match", "previous match", "", "find", pages=_SEARCHED),
    Key(("e",), "e", "next_error", "next error", "next, previous error", "find", "error",
        frozenset({OVERVIEW, LOG}), 26),
    Key(("E",), "E", "previous_error", "previous error", "", "find", pages=frozenset({OVERVIEW, LOG})),
    Key(("f",), "f", "follow", "follow", "follow the end, on or off", "find", "follow", _LOG, 35),
    Key(("t",), "t", "go_to", "go to line", "go to a line", "find", "line", _LOG, 37),
    Key(("a",), "a", "acknowledge", "acknowledge", "acknowledge: seen, in hand", "alerts", "ack", _TOLD, 42),
    Key(("M",), "M", "mute", "mute", "mute until it resolves; unmute", "alerts", "mute", _TOLD, 39),
)  # fmt: skip

COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("release GPUs", "release_gpus", "let NVML go: resets, MIG changes"),
    ("resume GPUs", "resume_gpus", "read the GPUs again"),
    ("sources", "sources", "every source: what became of it"),
    ("quarantine", "quarantine", "lines that could not be read"),
)
"""Reached by name only: (name, action, what it does)."""


def on_page(page: str) -> Iterator[Key]:
    """The rows that work on a page."""
    return (key for key in KEYS if page in key.pages)


def bindings(page: str) -> list[Binding]:
    """Textual's bindings of a page."""
    from textual.binding import Binding

    return [Binding(",".join(key.keys), key.action, key.name or key.action, show=False) for key in on_page(page)]


def footer(page: str, **labels: str) -> list[tuple[str, str]]:
    """Keys and words of a page's footer, most useful first.

    Args:
        labels: Other words for an action on this page; an empty word leaves the key out.
    """
    rows = sorted((key for key in on_page(page) if labels.get(key.action, key.label)), key=lambda key: key.rank)
    return [(key.shown, labels.get(key.action, key.label)) for key in rows]


def commands(page: str) -> list[tuple[str, str, str]]:
    """What the palette knows on a page: (name, action, its key or what it does)."""
    named = [(key.name, key.action, key.shown) for key in on_page(page) if key.name]
    return [*named, *COMMANDS]


def matching(typed: str, choices: list[str]) -> list[int]:
    """Indices of the choices that fit what is typed: those that begin with it, that hold it, that hold its letters."""
    wanted = typed.strip().lower()
    if not wanted:
        return list(range(len(choices)))
    ranked: list[tuple[int, int]] = []
    for index, choice in enumerate(choices):
        text = choice.lower()
        if text.startswith(wanted):
            ranked.append((0, index))
        elif wanted in text:
            ranked.append((1, index))
        else:
            letters = iter(text)
            if all(letter in letters for letter in wanted):
                ranked.append((2, index))
    return [index for _, index in sorted(ranked)]
