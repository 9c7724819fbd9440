"""Log text made safe: escape codes, control characters and bidi overrides out, progress bars resolved.

Two levels: `strip_codes` on bytes and `plain` on text feed the matching; `safe` is what may reach a terminal;
`visible` keeps the place of what it takes out, for names.
"""

from __future__ import annotations

import re
from unicodedata import category

_CODES = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor movement
    rb"|\][^\x07\x1b\n\r]{0,2048}(?:\x07|\x1b\\)?"  # OSC: titles, links
    rb"|[PX^_][^\x1b\n\r]{0,2048}(?:\x1b\\)?"  # DCS, SOS, PM, APC
    rb"|[ -/]{0,4}[0-~])?"  # two-byte codes, and a lone ESC
    rb"|\x08"  # Keras redraws with backspaces
)
_CODES_TEXT = re.compile(_CODES.pattern.decode("latin-1"))

_CHINESE_SIGNS = frozenset("：，。、；！？（）【】《》“”‘’％＝｜—…￥·～")
_FORWARD = re.compile(rb"\x1b\[(\d{0,3})C")

_DROP: dict[int, str | None] = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)])
_DROP.update({0x09: " ", 0x0A: " ", 0x0D: " "})
_BIDI = (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_DROP.update(dict.fromkeys([*_BIDI, *range(0xD800, 0xE000)], "\ufffd"))


def strip_codes(data: bytes) -> bytes:
    """Remove terminal escape codes and backspaces; line breaks and carriage returns stay where they are."""
    if b"\x1b" in data or b"\x08" in data:
        if b"C" in data:  # a terminal's recording moves the cursor on where blanks stand
            data = _FORWARD.sub(lambda match: b" " * int(match[1] or 1), data)
        return _CODES.sub(b"", data)
    return data


def decode(data: bytes) -> str:
    """Text of a line: UTF-8, else GBK where that gives Chinese; what is neither becomes the replacement character."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")
    return (
        text
        if all(sign.isascii() or sign in _CHINESE_SIGNS or "\u4e00" <= sign <= "\u9fff" for sign in text)
        else (data.decode("utf-8", "replace"))
    )


def safe(text: str) -> str:
    """Text that can be shown: no C0 or C1 characters, no escape codes, bidi controls replaced by U+FFFD."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text or "\x08" in text:
        text = _CODES_TEXT.sub("", text)
    return text.translate(_DROP)


def visible(text: str) -> str:
    """Text of unknown origin, such as a file's name, in one line: whatever a terminal would obey becomes `?`."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or category(sign) == "Zs" else "?" for sign in text)


def last_segment(data: bytes) -> bytes:
    """What a terminal would show of a line with carriage returns: its last segment that is not blank."""
    if b"\r" not in data:
        return data
    for segment in reversed(data.split(b"\r")):
        if strip_codes(segment).strip():
            return segment
    return b""


def shown(data: bytes, limit: int = 2000) -> str:
    """One raw line as safe text of at most `limit` characters."""
    return safe(decode(strip_codes(last_segment(data))[: limit * 4]))[:limit].rstrip()
