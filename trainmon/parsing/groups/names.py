"""Names that formats of several lines use for fields of the contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from trainmon.parsing.names import Slot, resolve, with_names

_OLMO = {
    "train/CE loss": "loss",
    "train/CrossEntropyLoss": "loss",
    "train/PPL": "perplexity",
    "train/Perplexity": "perplexity",
    "optim/LR (group 0)": "learning_rate",
    "optim/learning_rate_group0": "learning_rate",
    "optim/total grad norm": "grad_norm",
    "optim/total_grad_norm": "grad_norm",
    "throughput/device/TPS": "tokens_per_second",
    "throughput/device/tokens_per_second": "tokens_per_second",
    "throughput/device/MFU": "mfu",
    "throughput/total tokens": "consumed_tokens",
    "throughput/total_tokens": "consumed_tokens",
    "System/Peak GPU Memory (MB)": "gpu_memory_mb",
    "system/GPU active mem (GiB)": "gpu_memory_mb",
}
_OLMO_UNITS = {"System/Peak GPU Memory (MB)": "mb", "system/GPU active mem (GiB)": "gib"}
_COMPOSER = {
    "loss/train/total": "loss",
    "metrics/train/LanguageCrossEntropy": "language_cross_entropy",
    "metrics/train/LanguagePerplexity": "perplexity",
    "metrics/train/MulticlassAccuracy": "accuracy",
    "metrics/eval/LanguageCrossEntropy": "eval_loss",
    "metrics/eval/LanguagePerplexity": "eval_perplexity",
    "throughput/tokens_per_sec": "tokens_per_second",
    "throughput/samples_per_sec": "samples_per_second",
    "throughput/device/mfu": "mfu",
    "time/remaining_estimate": "remaining_estimate_h",
    "l2_norm/grad/global": "grad_norm",
    "time/token": "consumed_tokens",
    "time/sample": "consumed_samples",
    "memory/peak_allocated_mem": "gpu_memory_mb",
    "memory/current_allocated_mem": "current_allocated_mem_gb",
}
_COMPOSER_UNITS = {"throughput/device/mfu": "fraction", "memory/peak_allocated_mem": "gb"}
_RSL = {
    "Mean reward": "reward",
    "Value function loss": "value_loss",
    "Surrogate loss": "policy_loss",
    "Mean value_function loss": "value_loss",
    "Mean surrogate loss": "policy_loss",
    "Iteration time": "step_time",
    "Total timesteps": "consumed_samples",
    "Total time": "elapsed",
    "ETA": "eta",
    "Computation": "steps_per_sec",
}
_COQUI = {"step_time": "step_time", "loader_time": "data_time", "current_lr": "learning_rate", "grad_norm": "grad_norm"}
_NEMO_RL = {"Avg Reward": "reward", "Total step time": "step_time", "Mean Generation Length": "completion_length"}


def _areal(key: str) -> Slot:
    """`grpo_actor/update/grad_norm/avg`: the algorithm in front, the statistic behind."""
    parts = [part for part in key.split("/") if part not in ("avg", "update", "mean")]
    name = "/".join(parts[1:] if len(parts) > 1 and parts[0].endswith(("actor", "critic")) else parts)
    critic = parts[0].endswith("critic")
    return resolve(
        {"task_reward": "reward", "actor_loss": "policy_loss"}.get(name, f"critic_{name}" if critic else name)
    )


def _resolver(names: dict[str, str], units: dict[str, str]) -> Callable[[str], Slot]:
    @lru_cache(maxsize=1024)
    def slot(key: str) -> Slot:
        if key.startswith("lr-") and key.endswith("/group0"):  # Composer names the optimiser
            return resolve("learning_rate")
        return with_names(names, units, key)

    return slot


RESOLVERS: dict[str, Callable[[str], Slot]] = {
    "olmo": _resolver(_OLMO, _OLMO_UNITS),
    "composer": _resolver(_COMPOSER, _COMPOSER_UNITS),
    "rsl_rl": _resolver(_RSL, {}),
    "nemo_rl": _resolver(_NEMO_RL, {}),
    "areal": _areal,
    "coqui": _resolver(_COQUI, {}),
}
