"""The entries themselves: whole, consistent, and each one tried on a line that it must know and one that it must not."""

from importlib import resources

import pytest

from trainmon.catalogue import GENERIC_TRACEBACK, UNKNOWN_ERROR, load
from trainmon.catalogue.entry import read_entries
from trainmon.errors import ConfigError

CATALOGUE = load()
ENTRIES = list(CATALOGUE)
MATCHING = [entry for entry in ENTRIES if entry.signatures]

REQUIRED = {
    "GLM_4001", "GLM_5032", "GLM_2004", "E_COMM_1001", "E_COMM_1002", "E_COMM_1003", "INIT_CONTEXT_FAILED",
    "CUDA_OOM", "HOST_OOM_KERNEL", "EXIT_SIGKILL", "NCCL_WATCHDOG_TIMEOUT", "NCCL_SYSTEM_ERROR", "NCCL_SOCKET_CLOSED",
    "STORE_TIMEOUT", "TORCHRUN_CHILD_FAILED", "SIGTERM_FROM_LAUNCHER", "XID_79", "CUDA_ECC_UNCORRECTABLE",
    "CUDA_ILLEGAL_ACCESS", "CUDA_DEVICE_ASSERT", "DATALOADER_WORKER_KILLED", "SHM_TOO_SMALL", "DISK_FULL",
    "CKPT_CORRUPT", "CKPT_SIZE_MISMATCH", "PERMISSION_DENIED", "MODULE_NOT_FOUND", "LOSS_NAN", "FP16_OVERFLOW_SKIP",
    "GLOO_CONNECTION_CLOSED", "MPI_RANK_EXITED", "SLURM_TIME_LIMIT", "SLURM_CANCELLED", "PORT_IN_USE", "HF_OFFLINE",
    UNKNOWN_ERROR, GENERIC_TRACEBACK,
}  # fmt: skip


def by_code(entry) -> str:
    return entry.code


def test_every_file_of_the_package_is_read() -> None:
    folder = resources.files("trainmon.catalogue")
    names = [file.name for file in folder.iterdir() if file.name.endswith(".toml")]
    codes = [entry.code for name in names for entry in read_entries((folder / name).read_text("utf-8"), name)]
    assert len(names) >= 10
    assert sorted(codes) == sorted(CATALOGUE.entries)


def test_what_users_meet_most_is_there() -> None:
    assert set(CATALOGUE.entries) >= REQUIRED


@pytest.mark.parametrize("entry", MATCHING, ids=by_code)
def test_match_is_known_as_that_entry(entry) -> None:
    hit = CATALOGUE.classify(entry.match)
    assert hit is not None
    assert (hit.code, hit.priority, hit.title) == (entry.code, entry.level, entry.title)
    assert CATALOGUE.might_match(entry.match.encode())


@pytest.mark.parametrize("entry", MATCHING, ids=by_code)
def test_near_miss_is_not_that_entry(entry) -> None:
    assert entry.near_miss
    for level in (None, "INFO", "ERROR"):
        hit = CATALOGUE.classify(entry.near_miss, level if "INFO" not in entry.near_miss else "INFO")
        assert hit is None or hit.code != entry.code


@pytest.mark.parametrize("entry", ENTRIES, ids=by_code)
def test_an_entry_tells_cause_fix_and_source(entry) -> None:
    assert entry.causes and entry.fixes
    for text in (entry.title, entry.meaning, entry.source, *entry.causes, *entry.fixes):
        assert text.strip() == text and text
        assert "{" not in text, "a placeholder of for_each was not filled"
    assert len(entry.title) <= 60
    assert entry.title[0].islower() or entry.title.split()[0].rstrip(":").upper() != entry.title.split()[0].lower()


@pytest.mark.parametrize("entry", ENTRIES, ids=by_code)
def test_codes_that_an_entry_names_exist(entry) -> None:
    for code in (*entry.consequences, *entry.beats, *([entry.unified] if entry.unified else [])):
        assert code in CATALOGUE.entries
    assert entry.code not in entry.consequences
    assert len(set(entry.consequences)) == len(entry.consequences)


def test_generic_entries_match_nothing_by_themselves() -> None:
    assert not CATALOGUE.entries[UNKNOWN_ERROR].signatures
    assert not CATALOGUE.entries[GENERIC_TRACEBACK].signatures
    assert CATALOGUE.classify("Traceback (most recent call last):", "ERROR") is None


def test_communication_failures_say_under_which_code_they_are_filed() -> None:
    for entry in ENTRIES:
        if entry.family == "nccl" and entry.level == 1:
            assert entry.unified in ("E_COMM_1001", "E_COMM_1002", "E_COMM_1003")


GOOD = """
family = "mine"
[[entry]]
code = "{n}"
title = "t {n}"
level = 2
scope = "code"
is_usually = "symptom"
meaning = "m"
signatures = ["lost {n}"]
causes = ["c"]
fixes = ["f"]
source = "s"
for_each = [{ n = "A_1" }, { n = "B_2", level = 3 }]
"""


def test_for_each_stands_for_several_entries() -> None:
    first, second = read_entries(GOOD, "mine.toml")
    assert (first.code, first.level, first.title, first.family) == ("A_1", 2, "t A_1", "mine")
    assert (second.code, second.level, second.signatures[0].text) == ("B_2", 3, "lost B_2")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("level = 2", "level = 7"), "level is 1 to 3"),
        (('causes = ["c"]', ""), "causes is missing"),
        (('source = "s"', 'source = "s"\ncolour = 1'), "unknown key: colour"),
        (('["lost {n}"]', "[{ regex = '(', need = ['x'] }]"), "bad regex"),
        (('["lost {n}"]', "[{ regex = 'x' }]"), "at least one literal"),
        (('["lost {n}"]', "[{ words = 'x' }]"), "unknown key in a signature: words"),
        (('family = "mine"', "family = "), "mine.toml: "),
    ],
)
def test_a_wrong_file_says_what_is_wrong(change, said) -> None:
    with pytest.raises(ConfigError) as caught:
        read_entries(GOOD.replace(*change), "mine.toml")
    assert said in str(caught.value)
