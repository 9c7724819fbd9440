"""What `y` hands to the clipboard is text, whatever stood in the log or in its name."""

from __future__ import annotations

from trainmon.tui.copying import pasteable


def test_nothing_that_is_pasted_presses_a_key_or_commands_the_terminal() -> None:
    evil = "a\x1b[201~rm\r\x9b31m\u202e\x07\x7f\udcff"
    assert pasteable(evil + "\tb\nc") == "a\ufffd[201~rm\ufffd\ufffd31m\ufffd\ufffd\ufffd\ufffd\tb\nc"
    pasteable(evil).encode()


def test_text_in_any_script_stays_as_it_is() -> None:
    assert pasteable("损失 1.5 — é\t½\n") == "损失 1.5 — é\t½\n"
