"""Names of fields: every spelling a log may use -> the name and unit of the record contract.

`resolve(key)` is cached, so a key costs its analysis once. The tables are data: a new spelling is one word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

NUMBER, WHOLE, MEMORY, INVERSE, STEP_OF, SECONDS, EXTRA, TIME, LEVEL, TEXT, LABEL, NODE, PLACE, SKIP = range(14)
"""What is done with a value: see `Slot.kind`."""

# canonical name -> (kind, dimension); what is not here goes to `extra`
FIELDS: dict[str, tuple[int, str]] = {
    "step": (WHOLE, "count"), "total_steps": (WHOLE, "count"), "epoch": (NUMBER, "plain"),
    "loss": (NUMBER, "plain"), "learning_rate": (NUMBER, "plain"), "grad_norm": (NUMBER, "plain"), "accuracy": (NUMBER, "plain"),
    "loss_scale": (NUMBER, "count"), "perplexity": (NUMBER, "count"), "reward": (NUMBER, "plain"), "kl": (NUMBER, "plain"),
    "tokens_per_second": (NUMBER, "count"), "samples_per_second": (NUMBER, "count"),
    "step_time_s": (NUMBER, "time"), "data_time_s": (NUMBER, "time"), "comm_time_s": (NUMBER, "time"),
    "tflops_per_gpu": (NUMBER, "tflops"), "mfu": (NUMBER, "percent"),
    "gpu_memory_mb": (MEMORY, "memory"), "gpu_memory_total_mb": (MEMORY, "memory"),
    "gpu_utilization": (NUMBER, "percent"), "gpu_temperature_c": (NUMBER, "plain"), "gpu_power_w": (NUMBER, "plain"),
    "consumed_samples": (WHOLE, "count"), "consumed_tokens": (WHOLE, "count"),
}  # fmt: skip

# Spellings in order of preference: where a record has two of them, the earlier one is the field and the other is kept in `extra`.
_SPELLINGS: dict[str, str] = {
    "step": "step global_step train_step training_step current_step current_steps iteration iter global_steps steps train_global_step "
    "training_global_step trainer_global_step optimizer_step num_updates update_step completed_step iters it 步数 步 迭代",
    "total_steps": "total_steps max_steps total_training_steps max_train_steps max_iters train_iters total_iters total_iterations "
    "total_optimization_steps num_training_steps 总步数",
    "epoch": "epoch current_epoch epochs epch progress_or_epoch train_epoch 轮次",
    "loss": "loss train_loss training_loss lm_loss total_loss reduced_train_loss loss_train loss_total loss_train_total train_ce_loss "
    "train_crossentropyloss train_loss_step tot_loss batch_loss lm_loss_value ce_loss avg_loss average_loss loss_avg closs 训练损失 损失",
    "learning_rate": "learning_rate lr train_lr current_lr cur_lr base_lr lr_0 train_learning_rate optim_lr optim_lr_group_0 lr_pg_0 "
    "train_lr_pg_0 actor_lr 学习率",
    "grad_norm": "grad_norm gradient_norm gradnorm gnorm grad total_grad_norm global_grad_norm train_grad_norm optim_total_grad_norm global_norm "
    "actor_grad_norm grdn norm 梯度范数",
    "accuracy": "accuracy acc train_accuracy train_acc token_acc training_accuracy 准确率",
    "loss_scale": "loss_scale lossscale",
    "perplexity": "perplexity ppl train_ppl train_perplexity",
    "reward": "reward mean_reward critic_rewards_mean ep_rew_mean average_reward_score rollout_raw_reward raw_reward reward_mean",
    "kl": "kl kl_div kl_divergence objective_kl mean_kl critic_kl",
    "tokens_per_second": "tokens_per_second tokens_per_sec tok_per_sec toks_per_sec tok_s tok_sec tokens_s tokens_sec train_tokens_per_second "
    "tps wps throughput_tokens_per_sec tokens_per_second_per_gpu tokens_per_gpu_per_second tokens_s_device tgs throughput 吞吐量 吞吐",
    "samples_per_second": "samples_per_second samples_per_sec samples_s samples_sec currsamplespersec samplespersec images_per_second "
    "images_per_sec images_s imgs_s img_s imgs_sec examples_per_second sps ips train_samples_per_second",
    "step_time_s": "step_time time_per_step step_duration time_step iter_time iteration_time time_per_iter time_per_iteration "
    "elapsed_time_per_iteration per_step_time seconds_per_step sec_per_step batch_time avg_batch_cost train_step_timing dt updt step_avg "
    "seconds_per_iteration e2e_latency",
    "data_time_s": "data_time data_wait data_wait_time dataloader_time data_load_time data_loading_time avg_reader_cost",
    "comm_time_s": "comm_time communication_time allreduce_time comm_wait",
    "tflops_per_gpu": "tflops_per_gpu tflops throughput_per_gpu tflop_s_device tflop_s tflops_per_device tflops_gpu approx_flops_per_gpu "
    "model_tflops",
    "mfu": "mfu bf16_mfu model_flops_utilization",
    "gpu_memory_mb": "gpu_memory gpu_mem gpumemory gpu_memory_used gpu_mem_used memory_used gpu_memory_allocated gpu_memory_usage "
    "max_memory_allocated memory_max_mem_allocated memory_max_allocated peak_memory peak_gpu_memory max_mem_allocated memory_allocated "
    "maxmemallocated memallocated memory_max_mem_active memory_device_mem_reserved max_mem max_mem_reserved gpu_memory_reserved cuda_memory "
    "step_peak_memory_allocated peak_mem vram memory mem 显存",
    "gpu_memory_total_mb": "gpu_memory_total gpu_mem_total memory_total gpu_total_memory",
    "gpu_utilization": "gpu_utilization gpu_util gpu_utilisation utilization_gpu gpu_usage gpu_utilization_percent sm_util",
    "gpu_temperature_c": "gpu_temperature gpu_temp temperature_gpu gpu_temperature_c",
    "gpu_power_w": "gpu_power power_draw gpu_power_draw gpu_power_w gpu_power_watts",
    "consumed_samples": "consumed_samples samples_seen samples_count consumed_train_samples",
    "consumed_tokens": "consumed_tokens num_tokens num_input_tokens_seen tokens_seen total_tokens",
    # names in use in `extra`
    "skipped_steps": "skipped_steps skipped number_of_skipped_iterations",
    "nan_iterations": "number_of_nan_iterations",
    "global_batch_size": "global_batch_size",
    "policy_loss": "policy_loss actor_pg_loss pg_loss actor_policy_loss act_loss train_pg_loss",
    "value_loss": "value_loss critic_vf_loss vf_loss cri_loss",
    "actor_loss": "actor_loss", "critic_loss": "critic_loss",
    "entropy": "entropy actor_entropy actor_entropy_loss train_entropy",
    "score": "score critic_score_mean",
    "completion_length": "completion_length completions_mean_length",
    "reward_margin": "reward_margin rewards_margins margin",
    "reward_accuracy": "reward_accuracy rewards_accuracies",
    "mean_token_accuracy": "mean_token_accuracy",
    "box_loss": "box_loss train_box_loss", "cls_loss": "cls_loss train_cls_loss", "dfl_loss": "dfl_loss train_dfl_loss",
    "total_epochs": "total_epochs num_epochs max_epochs num_train_epochs",
}  # fmt: skip

# Words of a line that are no measurement: (kind, name)
_OTHERS: dict[str, tuple[int, str]] = {
    **dict.fromkeys("timestamp ts time asctime datetime date created created_at logged_at time_ms 时间".split(), (TIME, "time")),
    **dict.fromkeys("level levelname severity lvl log_level loglevel".split(), (LEVEL, "level")),
    **dict.fromkeys("message msg event text".split(), (TEXT, "message")),
    **dict.fromkeys("exception exc_info traceback stack_trace exc_text error_message".split(), (TEXT, "exception")),
    **dict.fromkeys("node host hostname node_name worker node_id worker_name".split(), (NODE, "node")),
    **dict.fromkeys("rank global_rank process_index".split(), (PLACE, "rank")),
    "local_rank": (PLACE, "local_rank"),
    **dict.fromkeys("gpu gpu_id gpu_index device_index".split(), (PLACE, "gpu")),
    **dict.fromkeys("job_id jobid slurm_job_id run_id".split(), (LABEL, "job_id")),
    **dict.fromkeys("model_name model".split(), (LABEL, "model_name")),
    **dict.fromkeys("trace_id traceid".split(), (LABEL, "trace_id")),
    **dict.fromkeys("module logger logger_name".split(), (LABEL, "module")),
    **dict.fromkeys("thread threadname thread_name".split(), (LABEL, "thread")),
    **dict.fromkeys("elapsed_time elapsed train_time wall_time".split(), (SECONDS, "elapsed_s")),
    **dict.fromkeys("remaining_time eta".split(), (SECONDS, "remaining_s")),
    **dict.fromkeys("global_step_max_steps step_total_steps iter_max_iters".split(), (STEP_OF, "step")),
    "train_speed_iter_s": (INVERSE, "step_time_s"),
    "train_speed_s_it": (NUMBER, "step_time_s"),
    "iter_s": (INVERSE, "step_time_s"),
    **dict.fromkeys("ups steps_per_second it_s iterations_per_second iters_per_sec".split(), (INVERSE, "step_time_s")),
}

_TABLE: dict[str, tuple[str, int]] = {
    word: (name, place) for name, words in _SPELLINGS.items() for place, word in enumerate(words.split())
}
_EVAL = re.compile(r"(?:eval|evaluation|val|valid|validation|test)_(?!time|step|iter|epoch)(.+)")
_PARENS = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]")
_SEPARATORS = re.compile(r"[^0-9a-z\u00b5\u4e00-\u9fff]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])")
_UNIT_SUFFIX = re.compile(r"(.+?)_(?:in_)?(ms|us|s|sec|secs|seconds|mb|mib|gb|gib|kb|bytes|b|percent|pct|w|c|watts)")
_UNIT_FACTORS: dict[str, dict[str, float]] = {
    "memory": {"mb": 1.0, "mib": 1.0, "gb": 1024.0, "gib": 1024.0, "kb": 1 / 1024, "bytes": 2.0**-20, "b": 2.0**-20},
    "time": {"ms": 1e-3, "us": 1e-6, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0},
    "percent": {"percent": 1.0, "pct": 1.0},
    "plain": {"w": 1.0, "watts": 1.0, "c": 1.0},
}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the value of one key goes.

    Attributes:
        kind: One of the constants above: NUMBER a float, WHOLE an integer, MEMORY a float whose unit may have to be guessed,
            INVERSE 1/x, STEP_OF `10/438`, SECONDS a duration in words, EXTRA kept as it is, and the rest
            fields of the record itself.
        name: Canonical name, or the key in snake_case for `extra`.
        factor: From the key's own unit to the contract's.
        dimension: Which units a value may carry itself.
        place: 0 for the best spelling; of two keys for one name the lower wins.
        guess: True when the key names no unit, so that memory may be bytes or GiB.
    """

    kind: int
    name: str
    factor: float = 1.0
    dimension: str = "plain"
    place: int = 0
    guess: bool = False

    @property
    def measured(self) -> bool:
        """True for what stands in `Record.values`."""
        return self.name in FIELDS or self.name.startswith("eval_")


@lru_cache(maxsize=8192)
def snake(key: str) -> str:
    """`memory/max_mem_active(gib)` -> `memory_max_mem_active_gib`."""
    return _SEPARATORS.sub("_", _CAMEL.sub("_", key).lower()).strip("_") or "value"


def _known(word: str) -> tuple[str, int] | None:
    found = _TABLE.get(word)
    if found is None and "_" in word:
        found = _TABLE.get(word.replace("_", "")) if len(word) > 8 else None
    return found


def _slot(name: str, place: int, unit: str) -> Slot:
    kind, dimension = FIELDS.get(name, (EXTRA, "plain"))
    factor = _UNIT_FACTORS.get(dimension, {}).get(unit, 1.0)
    known = unit in _UNIT_FACTORS.get(dimension, {})
    if kind == MEMORY and known:
        kind = NUMBER
    return Slot(kind, name, factor, dimension, place, guess=not known)


@lru_cache(maxsize=8192)
def resolve(key: str) -> Slot:
    """The slot of a key in any spelling; keys that mean nothing to us go to `extra` under their own name."""
    whole = snake(key)
    if whole in _OTHERS:
        kind, name = _OTHERS[whole]
        return Slot(kind, name, dimension="time" if name == "step_time_s" else "plain")
    unit = ""
    bare = whole
    if found := _PARENS.search(key):
        bare = snake(_PARENS.sub("", key))
        unit = found[1].strip().lower()
    for candidate in (whole, bare):
        if hit := _known(candidate):
            return _slot(*hit, unit)
    if suffix := _UNIT_SUFFIX.fullmatch(bare):
        if hit := _known(suffix[1]):
            return _slot(*hit, suffix[2])
    if evaluation := _EVAL.fullmatch(bare):
        return _evaluation(evaluation[1], unit)
    return Slot(EXTRA, whole)


def _evaluation(rest: str, unit: str) -> Slot:
    hit = _known(rest)
    name = rest
    if hit is not None and hit[0] in ("loss", "accuracy", "perplexity", "reward", "kl", "samples_per_second"):
        name = hit[0]
    return Slot(NUMBER, "eval_" + name, place=hit[1] if hit else 0)


def with_names(names: Mapping[str, str], units: Mapping[str, str], key: str) -> Slot:
    """The slot of a key in a format that has its own names and units for some keys."""
    canonical = names.get(key)
    if canonical is None:
        return resolve(key)
    if canonical == "":
        return Slot(SKIP, key)
    base = resolve(canonical)
    return _slot(base.name, 0, units.get(key, "")) if base.kind in (NUMBER, WHOLE, MEMORY, EXTRA) and base.name in FIELDS else base
