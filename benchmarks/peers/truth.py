"""The right totals again, from modules of transformers on the meta device.

python -m benchmarks.peers.truth
"""

from __future__ import annotations

from typing import Any

from benchmarks.peers.subjects import SUBJECTS


def module(config: dict[str, Any]) -> Any:
    """The module that transformers builds, without memory."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    plain = {key: value for key, value in config.items() if key != "quantization_config"}
    kind = plain.pop("model_type")
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **plain))


def counted(model: Any, config: dict[str, Any]) -> tuple[int, int]:
    """All parameters, each once, and those that one token visits."""
    experts = config.get("num_local_experts") or config.get("n_routed_experts") or 1
    share = config.get("num_experts_per_tok", 1)
    total = active = 0
    for name, tensor in model.named_parameters():
        total += tensor.numel()
        routed = ".experts." in name
        active += tensor.numel() * share // experts if routed else tensor.numel()
    return total, active


def main() -> None:
    for subject in SUBJECTS:
        found = counted(module(subject.config), subject.config)
        same = found == (subject.total, subject.active)
        print(f"{subject.key:18}{found[0]:18,}{found[1]:18,}  {'equal' if same else 'DIFFERS'}")
        if not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
