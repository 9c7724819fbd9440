"""Counters that make a step: where a log counts only within its epochs, they are counted on."""

from __future__ import annotations

from trainmon.model import Record


class Counters:
    """What one file says of its epochs.

    Attributes:
        first_epoch: The number of its first epoch, 0 or 1; None until a record or a format tells.
    """

    __slots__ = ("first_epoch",)

    def __init__(self) -> None:
        self.first_epoch: int | None = None

    def complete(self, record: Record) -> None:
        """Give a record without a step the one that its epoch and its counter within the epoch make."""
        values, extra = record.values, record.extra
        inner, length, epoch = extra.get("epoch_step"), extra.get("steps_per_epoch"), values.get("epoch")
        if type(inner) is not int or type(length) is not int or epoch is None or length <= 0 or epoch != int(epoch):
            return
        whole = int(epoch)
        if self.first_epoch is None or whole < self.first_epoch:
            self.first_epoch = 0 if whole == 0 else 1
        if "step" not in values:
            values["step"] = (whole - self.first_epoch) * length + inner
        epochs = extra.get("total_epochs")
        if type(epochs) is int and epochs > 0 and "total_steps" not in values:
            values["total_steps"] = epochs * length
