"""Counters that make a step: where a log counts only within its epochs, they are counted on."""

from __future__ import annotations

from trainmon.model import Record


class Counters:
    """What one file says of its epochs.

    Attributes:
        first_epoch: The number of its first epoch, 0 or 1; None until a record or a format tells.
    """

    __slots__ = ("_falls", "_last", "_within", "first_epoch")

    def __init__(self) -> None:
        self.first_epoch: int | None = None
        self._within: bool | None = None
        self._falls: bool | None = None
        self._last = (0, 0)

    def complete(self, record: Record) -> None:
        """Give a record without a step the one that its epoch and its counter within the epoch make.

        A counter beside an epoch may also go on over the epochs: the first change of the epoch tells.
        """
        values, extra = record.values, record.extra
        if "epoch_step" not in extra:
            self._fallen(record)
            return
        inner, length, epoch = extra.get("epoch_step"), extra.get("steps_per_epoch"), values.get("epoch")
        if type(inner) is not int or not isinstance(epoch, (int, float)) or not abs(epoch) < 1e9:
            return
        whole = int(epoch)
        if self.first_epoch is None or whole < self.first_epoch:
            self.first_epoch = 0 if whole == 0 else 1
        if type(length) is not int or length <= 0:
            return
        before, last = self._last
        if self._within is None and record.kind == "metrics":
            if before and whole + 1 > before:
                self._within = inner <= last
            self._last = whole + 1, inner
        epochs = extra.get("total_epochs")
        if self._within is False:
            values.setdefault("step", inner)
            values.setdefault("total_steps", length)
            del extra["epoch_step"], extra["steps_per_epoch"]
            return
        if "step" not in values:
            values["step"] = (whole - self.first_epoch) * length + inner
        if type(epochs) is int and epochs > 0 and "total_steps" not in values and (self._within or epochs == 1):
            values["total_steps"] = epochs * length

    def _fallen(self, record: Record) -> None:
        """`epoch 2/5, step 50/400` after `epoch 1/5, step 400/400`: what is called a step counts within the epoch."""
        values = record.values
        step, length, epoch = values.get("step"), values.get("total_steps"), values.get("epoch")
        if (
            type(step) is not int
            or type(length) is not int
            or not isinstance(epoch, (int, float))
            or epoch != int(epoch)
        ):
            return
        whole = int(epoch)
        if self.first_epoch is None or whole < self.first_epoch:
            self.first_epoch = 0 if whole == 0 else 1
        before, last = self._last
        if before and whole + 1 > before and self._falls is None:
            self._falls = step < last == length
        self._last = whole + 1, step
        if self._falls and 0 <= step <= length:
            record.extra["epoch_step"], record.extra["steps_per_epoch"] = step, length
            values["step"] = (whole - self.first_epoch) * length + step
            del values["total_steps"]
            epochs = record.extra.get("total_epochs")
            if type(epochs) is int and epochs > 0:
                values["total_steps"] = epochs * length
