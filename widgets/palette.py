"""Tokens of the style guide as colours of the terminal, and the ASCII forms of the glyphs.

A token is a name and modifiers: "warning", "critical+bold+tint-critical", "muted+selected", "text+trend".

    +bold           heavier (and the bright variant where there are 16 colours)
    +selected       background of the selected entry
    +tint-critical, +tint-warning, +tint-ok, +track    backgrounds
    +reverse        swapped with the terminal's own background, in every palette
    +label          swapped only where there are no tints (the alert's name, a search match)
    +match          a search match: swapped in every palette
    +trend          ▲ ▼ mean up and down here, not a warning (their ASCII forms differ)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.style import Style

TOKENS = ("text", "strong", "muted", "faint", "accent", "data", "envelope", "ok", "warning", "critical")
BACKGROUNDS = ("selected", "tint-critical", "tint-warning", "tint-ok", "track")

_DARK = {
    "text": "#cbd2da",
    "strong": "bold #f2f5f8",
    "muted": "#838d99",
    "faint": "#39424d",
    "accent": "#6cb2f7",
    "data": "#4a80b4",
    "envelope": "#2f5478",
    "ok": "#5cb576",
    "warning": "#e2b04b",
    "critical": "#f6706a",
    "selected": "#182633",
    "tint-critical": "#38191c",
    "tint-warning": "#2f2610",
    "tint-ok": "#14271b",
    "track": "#1d242c",
}
_LIGHT = {
    "text": "#2a3037",
    "strong": "bold #0a0d11",
    "muted": "#66707b",
    "faint": "#cfd5da",
    "accent": "#1463bd",
    "data": "#5c95d3",
    "envelope": "#a4c4e8",
    "ok": "#1f7a3c",
    "warning": "#9a6700",
    "critical": "#c42b2b",
    "selected": "#dfebf8",
    "tint-critical": "#fbdedb",
    "tint-warning": "#f9ecc8",
    "tint-ok": "#def1e3",
    "track": "#e6eaed",
}
_ANSI16 = {
    "text": "",
    "strong": "bold",
    "muted": "bright_black",
    "faint": "bright_black",
    "accent": "cyan",
    "data": "cyan",
    "envelope": "bright_black",
    "ok": "green",
    "warning": "yellow",
    "critical": "red",
    "critical+bold": "bold bright_red",
}
_MONO = {
    "text": "",
    "strong": "bold",
    "muted": "dim",
    "faint": "dim",
    "accent": "bold",
    "data": "",
    "envelope": "dim",
    "ok": "",
    "warning": "bold",
    "critical": "bold",
}


@dataclass(frozen=True)
class Palette:
    """What a token looks like.

    Attributes:
        name: "dark", "light", "ansi16" or "mono".
        styles: Rich style definitions by token; backgrounds are plain colours.
        tints: False where incidents and selection have no background.
        ascii: True where the terminal shows ASCII only.
    """

    name: str
    styles: dict[str, str]
    tints: bool = True
    ascii: bool = False
    _cache: dict[str, Style] = field(default_factory=dict, compare=False, repr=False)

    def style(self, token: str) -> Style:
        """The style of a token; an unknown name is drawn as text. Never raises."""
        found = self._cache.get(token)
        if found is None:
            found = self._cache[token] = self._make(token)
        return found

    def _make(self, token: str) -> Style:
        name, *modifiers = token.split("+")
        definition = self.styles.get(name, self.styles["text"]) if name in TOKENS else self.styles["text"]
        if "bold" in modifiers:
            definition = self.styles.get(name + "+bold", definition if "bold" in definition else "bold " + definition)
        style = Style.parse(definition) if definition else Style.null()
        if "reverse" in modifiers or "match" in modifiers or ("label" in modifiers and not self.tints):
            # Without a tint behind it: swapped with the terminal's own background.
            return style + Style(reverse=True)
        if self.tints:
            for background in reversed(modifiers):
                if background in BACKGROUNDS:
                    return style + Style(bgcolor=self.styles[background])
        return style


def palette(name: str, *, ascii_only: bool = False) -> Palette:
    """The palette of that name; an unknown one gives the dark palette."""
    table = {"dark": _DARK, "light": _LIGHT, "ansi16": _ANSI16, "mono": _MONO}
    known = name if name in table else "dark"
    return Palette(known, table[known], tints=known in ("dark", "light"), ascii=ascii_only)


DARK = palette("dark")

HEALTH_GLYPHS = {"ok": "●", "warning": "▲", "critical": "✗", "silent": "○", "expected": "◌"}
HEALTH_TOKENS = {
    "ok": "ok",
    "warning": "warning+bold",
    "critical": "critical+bold",
    "silent": "muted",
    "expected": "muted",
}

_ASCII = {
    "●": "*", "▲": "!", "▼": "v", "✗": "x", "○": "o", "◌": ".", "■": "#", "↳": "\\", "→": ">", "←": "<", "↑": "^",
    "↓": "v", "×": "%", "›": "/", "▌": "|", "◆": "+", "–": "-", "—": "-", "✓": "y", "⏎": "E", "−": "-", "·": "-",
    "…": "~", "≈": "~", "°": "'", "±": "~", "≥": ">", "≤": "<", "━": "=", "─": "-", "╸": "-", "╺": "-", "│": "|",
    "┤": "+", "├": "+", "└": "+", "┬": "+", "┴": "+", "┈": ".", "╌": "-", "┊": ":", "┃": "|", "▁": "_", "▂": "_",
    "▃": "-", "▄": "-", "▅": "=", "▆": "=", "▇": "#", "█": "#", "▏": "|", "▎": "|", "▍": "|", "▋": "#", "▊": "#",
    "▉": "#", "▒": "=", "σ": "s", "²": "2", "’": "'", "‘": "'", "“": '"', "”": '"',
}  # fmt: skip


def to_ascii(char: str, token: str) -> str:
    """The one-cell ASCII form of a cell's character; what has none becomes `?`."""
    first = char[0]
    if first <= "~":
        # A letter with combining marks loses the marks.
        return first
    if first == "▲" and "+trend" in token:
        return "^"
    known = _ASCII.get(first)
    if known is not None:
        return known
    if "\u2800" <= first <= "\u28ff":
        dots = ord(first) - 0x2800
        if not dots:
            return " "
        upper, lower = dots & 0b00011011, dots & 0b11100100
        return ":" if upper and lower else "'" if upper else "."
    return "?"
