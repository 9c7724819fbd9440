"""Which machine is which node of the run, and which of its GPUs belong to the training. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Binding:
    """What is known of it.

    Attributes:
        node_of: Machine -> the run's node that it is.
        machine_of: Node of the run -> its machine; several nodes of one machine where each rank is a node.
    """

    node_of: dict[str, str] = field(default_factory=dict)
    machine_of: dict[str, str] = field(default_factory=dict)
