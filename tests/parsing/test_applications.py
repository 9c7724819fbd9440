"""Logs of services beside the training: Spring, Kafka, Spark, nginx, syslog, structlog, logfmt, and Java's stacks."""

from __future__ import annotations

import pytest

from trainmon.catalogue import load
from trainmon.model import Record
from trainmon.parsing.parser import FileParser

DAY = 1709251200.0  # 2024-03-01 00:00 UTC
NOON = DAY + 12 * 3600


def read(text: str, *, keep: bool = True) -> list[Record]:
    parser = FileParser("app.log", keep_log=keep, mtime=NOON + 3600)
    return parser.feed(text.encode(), 0) + parser.finish()


@pytest.mark.parametrize(
    ("line", "level", "time", "message", "module"),
    [
        ("2024-03-01 12:00:00.500  INFO 12345 --- [           main] c.e.demo.App              : Starting App",
         "INFO", NOON + 0.5, "Starting App", "c.e.demo.App"),
        ("2024-03-01T12:00:00.500Z ERROR 1 --- [demo] [nio-8080-exec-1] o.a.c.C.[.[/]    : it threw",
         "ERROR", NOON + 0.5, "it threw", "o.a.c.C.[.[/]"),
        ("[2024-03-01 12:00:03,456] WARN [ReplicaManager broker=0] slow (kafka.server.ReplicaManager)",
         "WARN", NOON + 3.456, "[ReplicaManager broker=0] slow (kafka.server.ReplicaManager)", None),
        ("2024-03-01 12:00:03,456 [main] ERROR com.foo.Bar - it broke", "ERROR", NOON + 3.456, "it broke", "com.foo.Bar"),
        ("24/03/01 12:00:05 ERROR Executor: Exception in task 0.0", "ERROR", NOON + 5, "Executor: Exception in task 0.0",
         None),
        ("2024/03/01 12:00:08 [error] 31#31: *1 connect() failed", "ERROR", NOON + 8, "connect() failed", None),
        ('10.0.0.1 - frank [01/Mar/2024:14:00:07 +0200] "POST /v1 HTTP/1.1" 503 26', "WARN", NOON + 7,
         '"POST /v1 HTTP/1.1" 503 26', None),
        ('::1 - - [01/Mar/2024:12:00:07 +0000] "GET /health HTTP/1.1" 200 12 "-" "curl/7.1"', "INFO", NOON + 7,
         '"GET /health HTTP/1.1" 200 12 "-" "curl/7.1"', None),
        ("<11>Mar  1 12:00:10 node7 slurmd[99]: no memory", "ERROR", NOON + 10, "no memory", "slurmd"),
        ("<12>1 2024-03-01T12:00:10Z node7 app 99 - - low", "WARN", NOON + 10, "node7 app 99 - - low", None),
        ("2024-03-01 12:00:11 [error    ] boom", "ERROR", NOON + 11, "boom", None),
        ("2024-03-01T12:00:12Z [warning  ] slow batch", "WARN", NOON + 12, "slow batch", None),
        ('level=error ts=2024-03-01T12:00:14Z msg="upload failed" err="timed out"', "ERROR", NOON + 14,
         "upload failed: timed out", None),
        ('time="2024-03-01T12:00:14Z" level=warning msg=slow', "WARN", NOON + 14, "slow", None),
    ],
)  # fmt: skip
def test_the_front_of_a_line(line: str, level: str, time: float, message: str, module: str | None) -> None:
    (record,) = read(line + "\n")
    assert (record.level, record.time, record.message) == (level, time, message)
    assert record.labels.get("module") == module
    assert record.kind == ("error" if level == "ERROR" else "log")


STACK = """\
java.lang.IllegalStateException: no batch
\tat com.example.Loader.next(Loader.java:42) ~[classes/:na]
\tat java.base/java.lang.Thread.run(Thread.java:833)
Caused by: java.io.IOException: disk gone
\tat com.example.Disk.read(Disk.java:7)
\t... 12 common frames omitted
"""


def test_a_java_stack_is_one_error() -> None:
    before, stack, after = read(f"2024-03-01 12:00:00 ERROR it failed\n\n{STACK}2024-03-01 12:00:01 WARN later\n")
    assert (before.message, after.message) == ("it failed", "later")
    assert stack.message == "java.lang.IllegalStateException: no batch (caused by java.io.IOException: disk gone)"
    assert (stack.kind, stack.code, stack.line, stack.extra["at"]) == (
        "error",
        "GENERIC_TRACEBACK",
        3,
        "Loader.java:42",
    )
    assert stack.time == NOON  # its neighbour's


def test_java_stacks_of_two_nodes_interleave() -> None:
    one, two = ([f"{node}: {line}" for line in STACK.splitlines()] for node in ("worker-1", "worker-2"))
    mixed = [line for pair in zip(one, two, strict=True) for line in pair]
    records = read("\n".join(mixed) + "\n", keep=False)
    assert [(r.node, r.line) for r in records] == [("worker-1", 1), ("worker-2", 2)]
    assert all(r.message is not None and "disk gone" in r.message for r in records)


def test_an_exception_without_a_stack_is_a_line() -> None:
    parser = FileParser("app.log", classify=load())
    (record,) = parser.feed(b"torch.distributed.DistBackendError: NCCL error in: a.cpp:1\n", 0) + parser.finish()
    assert (record.kind, record.line, record.offset) == ("error", 1, 0)
    records = read("ray.exceptions.RayError: gone\nstep=3 loss=2.0 lr=0.1\n", keep=False)
    assert records[-1].values == {"step": 3, "loss": 2.0, "learning_rate": 0.1}


def test_the_heap_of_java_is_no_gpu() -> None:
    parser = FileParser("app.log", classify=load())
    (record,) = parser.feed(b"java.lang.OutOfMemoryError: Java heap space\n\tat a.B(B.java:3)\n", 0) + parser.finish()
    assert record.code == "GENERIC_TRACEBACK"
