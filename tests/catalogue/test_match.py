"""What a line is taken for: nothing that is no error, the most specific entry, and never past the first look."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.catalogue import Catalogue, load
from trainmon.catalogue.entry import read_entries

CATALOGUE = load()
SAMPLES = [entry.match for entry in CATALOGUE if entry.signatures]

BENIGN = [
    # settings, names of metrics, counters at zero
    ("2026-11-30 20:58:33,226 [rank0] INFO trainer: world_size=2 backend=gloo torch=2.13.0+cpu log_level=ERROR error_handling=1", "INFO"),
    ("2026-11-30 20:58:34,651 [rank0] INFO trainer: step=1/500 loss=6.2884 grad_norm=0.374 lr=3.00e-04 eval_error: 0.0 tok/s=6026", "INFO"),
    ("INFO eval: exact_match=0.41 errors=0 error_rate=0.000 failed=0 timeout_count=0 nan_count=0", "INFO"),
    ("{'eval_loss': 1.71, 'eval_mean_absolute_error': 0.1, 'eval_word_error_rate': 0.08, 'eval_runtime': 11.2, 'epoch': 0.6}", None),
    (" iteration        1/    1000 | lm loss: 1.244238E+01 | loss scale: 12.0 | grad norm: 67.593 | number of skipped iterations:   0 | number of nan iterations:   0 |", None),
    ("nccl_timeout=1800 check_for_nan_in_loss_and_grad=True max_loss_scale=65536 overflow_window=1000", None),
    # texts of the data set, prompts, answers
    ('INFO data: sample 0: "Q: How do I fix RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB? A: lower the batch size"', "INFO"),
    ('INFO data: sample 1: "The kernel log said: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."', "INFO"),
    ('sample 1: "The kernel log said: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."', None),
    ('{"prompt": "explain: slurmstepd: error: Detected 1 oom_kill event in StepId=1.0", "reward": 0.5, "format_error": 0}', None),
    ('{"completion": "KeyError: \'x\' means that the key is missing", "loss": 1.5}', None),
    ('INFO rollout: response="Connection refused usually means that no server listens on the port" length=71', "INFO"),
    ("When a KeyError: 'x' is raised, look at the configuration first", None),
    # chatter of libraries
    ("node31:849779:852380 [0] NCCL INFO comm 0x55c9be142a30 rank 5 nranks 8 cudaDev 1 busId 46000 - Abort COMPLETE", None),
    ("node18:1433821:1433821 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation", None),
    ("WARNING: could not find the metadata file /data/checkpoints/latest_checkpointed_iteration.txt", "WARN"),
    ("    will not load any checkpoints and will start from random", None),
    ("2026-11-30 20:58:37,050 [rank1] INFO trainer: training finished, exited with code 0", "INFO"),
    ("E0000 00:00:1737839649.620236 1899436 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered", "ERROR"),
    ("/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:429: UserWarning: torch.utils.checkpoint: please pass in use_reentrant=True", None),
    ("Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.", None),
    # source code, as tracebacks quote it
    ("    raise RendezvousTimeoutError", None),
    ("[rank0]:     raise KeyError(name) from None", None),
    ('    raise RuntimeError("CUDA error: out of memory")', None),
    ("    raise RuntimeError('CUDA error: out of memory')", "ERROR"),
    ("[rank0]:     assert shape == want, 'shapes: CUDA error: out of memory'", None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "level"), BENIGN)
def test_what_is_no_error_is_not_taken_for_one(line, level) -> None:
    assert CATALOGUE.classify(line, level) is None


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("[rank1]:[E ProcessGroupNCCL.cpp:1414] Process group watchdog thread terminated with exception: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)", "NCCL_WATCHDOG_ABORT"),
        ("watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered", "CUDA_ECC_UNCORRECTABLE"),
        ("RuntimeError: DataLoader worker (pid 30882) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.", "SHM_TOO_SMALL"),
        ("ERROR_CODE: GLM_5032 CUDA out of memory while serving batch of 64", "GLM_5032"),
        ("failed (exitcode: -9) local_rank: 1 (pid: 407) of binary: /opt/venv/bin/python3", "EXIT_SIGKILL"),
        ("failed (exitcode: 1) local_rank: 1 (pid: 407) of binary: /opt/venv/bin/python3", "TORCHRUN_CHILD_FAILED"),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "RAY_OOM"),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.", "HIP_OOM"),
        ("RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2_3>: No space left on device (28)", "SHM_TOO_SMALL"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/corpus/train_shard_0042.bin'", "DATASET_NOT_FOUND"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/runs/checkpoint-500/model.safetensors'", "CKPT_FILE_MISSING"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/etc/run.yaml'", "FILE_NOT_FOUND"),
    ],
)  # fmt: skip
def test_the_more_specific_entry_wins(line, code) -> None:
    hit = CATALOGUE.classify(line)
    assert hit is not None and hit.code == code


@pytest.mark.parametrize(
    "prefix",
    [
        "", "[rank3]: ", "3: ", "[default1]:[rank1]: ", "2025-04-05 10:20:38.546 [worker-0] [ERROR] ", "ERROR trainer: ",
        "2025-04-05T10:20:38Z ", "2024-01-01T00:00:00.1Z stderr F ", "(Worker pid=12, ip=10.0.0.4) ", "2025-04-05 10:00:00 ERROR — ",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("KeyError: 'warmup_steps'", "KEY_ERROR"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.", "CUDA_OOM"),
        ("ncclRemoteError: A call failed possibly due to a network error", "NCCL_REMOTE_ERROR"),
    ],
)
def test_launchers_and_loggers_put_things_before_a_message(prefix, said, code) -> None:
    hit = CATALOGUE.classify(prefix + said)
    assert hit is not None and hit.code == code


def test_the_level_decides_about_chatter_and_quotes() -> None:
    line = "trying again after: RuntimeError: CUDA error: out of memory"
    assert CATALOGUE.classify(line, "INFO") is None
    assert CATALOGUE.classify(line, "WARN") is not None
    assert CATALOGUE.classify("WARNING retry 1 of 3: KeyError: 'x'", "WARN").priority == 2
    assert CATALOGUE.classify("KeyError: 'x'", "ERROR").priority == CATALOGUE.classify("KeyError: 'x'").priority == 1
    assert CATALOGUE.classify("W1 api.py:7] Received 15 death signal, shutting down workers", "WARN").priority == 1
    quoted = 'worker said "CUDA error: out of memory"'
    assert CATALOGUE.classify(quoted, None) is None
    assert CATALOGUE.classify(quoted, "ERROR") is not None
    overflow = (
        "[INFO] [stage3.py:1850] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, reducing to 32"
    )
    hit = CATALOGUE.classify(overflow, "INFO")
    assert hit is not None and (hit.code, hit.priority) == ("FP16_OVERFLOW_SKIP", 3)


def test_a_json_line_speaks_by_its_message() -> None:
    said = r'{"level": "ERROR", "msg": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate \"1.5 GiB\"", "step": 3}'
    hit = CATALOGUE.classify(said, "ERROR")
    assert hit is not None and hit.code == "CUDA_OOM"
    assert CATALOGUE.classify('{"step": 470, "loss": NaN, "grad_norm": NaN}').code == "LOSS_NAN"


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-Infinity"])
@pytest.mark.parametrize(
    "text", ["'loss': {}, 'lr': 1", "lm loss: {} |", "loss is {} at step 3", "train_loss={}", "loss {}"]
)
def test_a_loss_that_is_no_number(text, value) -> None:
    assert CATALOGUE.classify(text.format(value)).code == "LOSS_NAN"


@pytest.mark.parametrize(
    "text",
    ["eval_loss: nan", "loss: 1.25", "loss: information", "aux/loss=nan", "loss_scale: inf", "check nan in loss: True"],
)
def test_other_numbers_are_not_the_loss(text) -> None:
    assert CATALOGUE.classify(text) is None


def test_several_lines_give_the_worst() -> None:
    text = "Sending process 12 closing signal SIGTERM\nKeyError: 'x'\nnothing"
    assert CATALOGUE.classify(text).code == "KEY_ERROR"


def test_a_very_long_line_is_no_trouble() -> None:
    assert CATALOGUE.classify("KeyError: 'x' " + "x" * 3_000_000).code == "KEY_ERROR"
    assert CATALOGUE.classify('"' * 300_000 + "NVRM: Xid " * 30_000) is None


@given(
    st.sampled_from(SAMPLES),
    st.text(max_size=30),
    st.text(max_size=30),
    st.sampled_from([None, "INFO", "WARN", "ERROR"]),
)
def test_what_classify_knows_passes_the_first_look(sample, before, after, level) -> None:
    line = before + sample + after
    if CATALOGUE.classify(line, level) is not None:
        assert CATALOGUE.might_match(line.encode("utf-8", "replace"))


@given(st.text(max_size=200), st.sampled_from([None, "INFO", "ERROR", "odd"]))
def test_any_text_is_fine(text, level) -> None:
    hit = CATALOGUE.classify(text, level)
    assert hit is None or CATALOGUE.might_match(text.encode("utf-8", "replace"))
    CATALOGUE.might_match(text.encode("utf-16", "replace"))


WORDS = st.text(alphabet="abeinorst EKX:=", min_size=4, max_size=16).filter(str.strip)


@given(st.lists(WORDS, min_size=1, max_size=12, unique=True), st.data())
def test_every_word_of_any_catalogue_is_found(words, data) -> None:
    """Also where one word is part of another one, and whatever characters it begins with."""
    text = 'family = "f"\n' + "".join(
        f'[[entry]]\ncode = "C_{n}"\ntitle = "t"\nlevel = 1\nscope = "code"\nis_usually = "symptom"\nmeaning = "m"\n'
        f'causes = ["c"]\nfixes = ["f"]\nsource = "s"\nsignatures = ["{word}"]\n'
        for n, word in enumerate(words)
    )
    catalogue = Catalogue(read_entries(text, "f.toml"))
    word = data.draw(st.sampled_from(words))
    line = f"..{word}.."
    assert catalogue.might_match(line.encode())
    hit = catalogue.classify(line)
    assert hit is not None
    assert words[int(hit.code[2:])] in line and len(words[int(hit.code[2:])]) >= len(word)


def test_a_catalogue_without_entries_knows_nothing() -> None:
    empty = Catalogue([])
    assert not empty.might_match(b"CUDA out of memory")
    assert empty.classify("CUDA out of memory", "ERROR") is None
