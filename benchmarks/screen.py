"""A small, fast terminal emulator: text only (no colours), enough for curses, Textual and Bubble Tea output.

pyte is the reference (`python screen.py --check rec.raw` compares both), but it handles ~0.3 MB/s; this one is
tens of times faster, so that emulating does not disturb what is measured.
"""

import codecs
import re
import sys
import unicodedata

TOK = re.compile(
    r"([^\x00-\x1f\x7f]+)"  # 1 text
    r"|\x1b\[([0-9;:?<>=!]*)([ -/]*)([@-~])"  # 2,3,4 CSI
    r"|(\x1b\][^\x07\x1b]*(?:\x07|\x1b\\))"  # 5 OSC
    r"|(\x1b[PX^_].*?\x1b\\)"  # 6 DCS and so on
    r"|\x1b([()*+\-./%#])(.)"  # 7,8 charset
    r"|\x1b([^\[\]PX^_()*+\-./%#])"  # 9 ESC x
    r"|([\x00-\x1a\x1c-\x1f\x7f])",
    re.DOTALL,
)  # 10 control


def width(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


class Screen:
    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols
        self.dec = codecs.getincrementaldecoder("utf-8")("replace")
        self.hold = ""
        self.modes = {}  # private modes set or reset by the program
        self.kitty = 0  # pushed keyboard modes
        self.saved = (0, 0)
        self.clear()
        self.y = self.x = 0
        self.top, self.bot = 0, rows - 1
        self.last = " "

    def clear(self):
        self.lines = [" " * self.cols] * self.rows

    def text(self):
        return "\n".join(self.lines)

    def feed(self, data):
        s = self.hold + self.dec.decode(data)
        self.hold = ""
        i = s.rfind("\x1b")
        if i >= 0 and len(s) - i < 65536:
            m = TOK.match(s, i)
            if m is None:
                s, self.hold = s[:i], s[i:]
        for m in TOK.finditer(s):
            g = m.lastindex
            if g == 1:
                self.put(m[1])
            elif g == 4:
                self.csi(m[2], m[4], m[3])
            elif g == 10:
                self.ctl(m[10])
            elif g == 9:
                self.esc(m[9])

    def put(self, t):
        self.last = t[-1]
        while t:
            if self.x >= self.cols:
                if self.modes.get(7) is False:
                    self.x = self.cols - 1
                    t = t[-1]
                else:
                    self.x = 0
                    self.index()
            room = self.cols - self.x
            if t.isascii():
                now, t = t[:room], t[room:]
                w = len(now)
            else:
                if len(t) <= room and width(t) == len(t):
                    now, t, w = t, "", len(t)
                else:
                    k = w = 0
                    while k < len(t) and w + width(t[k]) <= room:
                        w += width(t[k])
                        k += 1
                    if k == 0:
                        self.x = self.cols
                        if room == self.cols:
                            return
                        continue
                    now, t = t[:k], t[k:]
                    out = ""
                    for c in now:
                        cw = width(c)
                        out += c if cw == 1 else c + "\x00" if cw == 2 else ""
                    now = out
            line = self.lines[self.y]
            self.lines[self.y] = line[: self.x] + now + line[self.x + w :]
            self.x += w

    def scroll(self, n, top=None):
        top = self.top if top is None else top
        span = self.bot - top + 1
        n = max(-span, min(span, n))
        blank = [" " * self.cols] * abs(n)
        reg = self.lines[top : self.bot + 1]
        self.lines[top : self.bot + 1] = reg[n:] + blank if n > 0 else blank + reg[: n or None]

    def index(self):
        if self.y == self.bot:
            self.scroll(1)
        elif self.y < self.rows - 1:
            self.y += 1

    def ctl(self, c):
        if c == "\n" or c == "\x0b" or c == "\x0c":
            self.index()
        elif c == "\r":
            self.x = 0
        elif c == "\b":
            self.x = max(0, min(self.x, self.cols) - 1)
        elif c == "\t":
            self.x = min(self.cols - 1, (self.x // 8 + 1) * 8)

    def esc(self, c):
        if c == "D":
            self.index()
        elif c == "E":
            self.x = 0
            self.index()
        elif c == "M":
            if self.y == self.top:
                self.scroll(-1)
            else:
                self.y = max(0, self.y - 1)
        elif c == "7":
            self.saved = (self.y, self.x)
        elif c == "8":
            self.y, self.x = self.saved
        elif c == "c":
            self.clear()
            self.y = self.x = 0
            self.top, self.bot = 0, self.rows - 1

    def csi(self, par, c, inter):
        if inter:
            return
        if par[:1] in ("?", "<", ">", "=", "!"):
            if par[:1] == "?" and c in "hl":
                for p in par[1:].split(";"):
                    if p.isdigit():
                        self.modes[int(p)] = c == "h"
                        if p in ("1049", "1047", "47"):
                            self.clear()
            elif c == "u" and par[0] == ">":
                self.kitty += 1
            elif c == "u" and par[0] == "<":
                self.kitty = max(0, self.kitty - 1)
            return
        if c == "m":
            return
        a = [int(p) if p.isdigit() else 0 for p in par.split(";")] if par else []
        n = a[0] if a and a[0] else 1
        L, y = self.lines, self.y
        x = min(self.x, self.cols - 1)
        if c in "Hf":
            self.y = min(self.rows, a[0] if a and a[0] else 1) - 1
            self.x = min(self.cols, a[1] if len(a) > 1 and a[1] else 1) - 1
        elif c == "A":
            self.y, self.x = max(0, y - n), x
        elif c == "B" or c == "e":
            self.y, self.x = min(self.rows - 1, y + n), x
        elif c == "C" or c == "a":
            self.x = min(self.cols - 1, x + n)
        elif c == "D":
            self.x = max(0, x - n)
        elif c == "E":
            self.y, self.x = min(self.rows - 1, y + n), 0
        elif c == "F":
            self.y, self.x = max(0, y - n), 0
        elif c == "G" or c == "`":
            self.x = min(self.cols, n) - 1
        elif c == "d":
            self.y, self.x = min(self.rows, n) - 1, x
        elif c == "K":
            k = a[0] if a else 0
            if k == 0:
                L[y] = L[y][:x] + " " * (self.cols - x)
            elif k == 1:
                L[y] = " " * (x + 1) + L[y][x + 1 :]
            else:
                L[y] = " " * self.cols
        elif c == "J":
            k = a[0] if a else 0
            if k == 0:
                L[y] = L[y][:x] + " " * (self.cols - x)
                L[y + 1 :] = [" " * self.cols] * (self.rows - y - 1)
            elif k == 1:
                L[:y] = [" " * self.cols] * y
                L[y] = " " * (x + 1) + L[y][x + 1 :]
            else:
                self.clear()
        elif c == "X":
            n = min(n, self.cols - x)
            L[y] = L[y][:x] + " " * n + L[y][x + n :]
        elif c == "P":
            n = min(n, self.cols - x)
            L[y] = L[y][:x] + L[y][x + n :] + " " * n
        elif c == "@":
            n = min(n, self.cols - x)
            L[y] = (L[y][:x] + " " * n + L[y][x:])[: self.cols]
        elif c == "L" and self.top <= y <= self.bot:
            self.scroll(-n, y)
        elif c == "M" and self.top <= y <= self.bot:
            self.scroll(n, y)
        elif c == "S":
            self.scroll(n)
        elif c == "T":
            self.scroll(-n)
        elif c == "b":
            self.put(self.last * n)
        elif c == "r":
            self.top = (a[0] if a and a[0] else 1) - 1
            self.bot = min(self.rows, a[1] if len(a) > 1 and a[1] else self.rows) - 1
            self.y = self.x = 0
        elif c == "s":
            self.saved = (self.y, self.x)
        elif c == "u":
            self.y, self.x = self.saved

    def leftovers(self):
        """Terminal state a well-behaved program has put back at exit."""
        on = [m for m in (1049, 1047, 47, 1000, 1002, 1003, 1006, 1015, 1004, 2004, 2026) if self.modes.get(m)]
        if self.modes.get(25) is False:
            on.append("cursor hidden")
        if self.kitty:
            on.append("kitty keyboard")
        return on


if __name__ == "__main__":
    import time

    with open(sys.argv[2], "rb") as f:
        data = f.read()
    rows, cols = (int(v) for v in (sys.argv[3:5] or (45, 160)))
    t = time.perf_counter()
    s = Screen(rows, cols)
    s.feed(data)
    t1 = time.perf_counter() - t
    print(f"screen.py {len(data) / t1 / 1e6:.2f} MB/s")
    if sys.argv[1] == "--check":
        import pyte

        t = time.perf_counter()
        p = pyte.Screen(cols, rows)
        pyte.ByteStream(p).feed(data)
        t2 = time.perf_counter() - t
        print(f"pyte      {len(data) / t2 / 1e6:.2f} MB/s")
        diff = [
            (i, a.replace("\x00", "").rstrip(), b.rstrip())
            for i, (a, b) in enumerate(zip(s.lines, p.display, strict=False))
            if a.replace("\x00", "").rstrip() != b.rstrip()
        ]
        print("rows that differ:", len(diff))
        for d in diff[:5]:
            print(d)
    else:
        print(s.text())
