"""What training scripts wrap around the weights they save, and what they save beside them."""

from __future__ import annotations

from collections.abc import Sequence

# Keys under which the weights themselves are saved.
WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "params", "weights")
# Keys of what training keeps beside them. The moments of an optimizer are no weights.
OPTIMIZER = ("optimizer", "optimizers", "optimizer_states", "optimizer_state_dict", "optim", "opt")
OTHER_STATE = (
    *("lr_scheduler", "lr_schedulers", "scheduler", "scheduler_state_dict", "callbacks", "loops"),
    *("scaler", "grad_scaler", "amp", "rng_state", "cuda_rng_state", "random_rng_state"),
    *("rng_tracker_states", "np_rng_state", "torch_rng_state"),
)
AVERAGES = ("ema", "model_ema", "ema_state_dict", "ema_model", "state_dict_ema")

# The prefix of tensors that are no weights of the model; no module is called so.
APART = {
    **dict.fromkeys(OPTIMIZER, "<optimizer>"),
    **dict.fromkeys(OTHER_STATE, "<state>"),
    **dict.fromkeys(AVERAGES, "<average>"),
}


def named(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Names of tensors from their paths: without the wrapper, what is no weight marked.

    >>> named([("model", "wte.weight"), ("optimizer", "state", "0", "exp_avg")])
    ['wte.weight', '<optimizer>.state.0.exp_avg']
    >>> named([("model", "wte.weight"), ("lm_head", "weight")])
    ['model.wte.weight', 'lm_head.weight']
    """
    tops = {path[0] for path in paths if path}
    apart = {top for top in tops if top in APART}
    rest = tops - apart
    wrapped = len(rest) == 1 and next(iter(rest)) in WRAPPERS and all(len(path) > 1 for path in paths if path)
    return [
        ".".join((APART[path[0]], *path[1:]))
        if path and path[0] in apart
        else ".".join(path[1:] if wrapped and path else path)
        for path in paths
    ]
