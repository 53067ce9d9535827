"""Parameters of every rank of a fake process group: FSDP2 and tensor parallelism of torch itself."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from sizer.errors import BadInput
from sizer.oracles.runs import explained
from sizer.oracles.torch import build, import_torch

if TYPE_CHECKING:
    from sizer.model import Model


def measure(model: Model, *, framework: str = "fsdp2", ranks: int = 8) -> list[int]:
    """Elements that each rank holds, on the meta device, in a process group that never talks."""
    import_torch()
    if framework not in ("fsdp2", "dtensor"):
        raise BadInput(f"framework = {framework} cannot be measured here; fsdp2 and dtensor can")
    with explained(model, "its shards"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_on_rank(model, framework, rank, ranks) for rank in range(ranks)]


def _on_rank(model: Model, framework: str, rank: int, ranks: int) -> int:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())
    try:
        module = build(model)
        mesh = init_device_mesh("cpu", (ranks,))
        if framework == "fsdp2":
            from torch.distributed.fsdp import fully_shard

            fully_shard(module, mesh=mesh)
        else:
            _parallel(model, module, mesh)
        local = {
            id(p): p.to_local().numel() if hasattr(p, "to_local") else p.numel() for p in module.parameters()
        }
        return sum(local.values())
    finally:
        dist.destroy_process_group()


def _parallel(model: Model, module: Any, mesh: Any) -> None:
    """The plan that transformers publishes for a model, and its embedding and head by vocabulary."""
    from torch import nn
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = getattr(module.config, "base_model_tp_plan", None)
    if not plan:
        raise BadInput(f"{model.name}: transformers has no tensor-parallel plan for it")
    if any(".experts." in key for key in plan) and any(p.dim() > 2 for p in module.parameters()):
        raise BadInput(
            f"{model.name}: transformers splits its experts with code of its own, for ranks that talk; "
            "--framework fsdp2 can be measured"
        )
    styles: dict[str, Any] = {}
    for name, part in module.named_modules():
        if isinstance(part, nn.Embedding):
            styles[name] = RowwiseParallel()
        elif isinstance(part, nn.Linear):
            pattern = ".".join("*" if piece.isdigit() else piece for piece in name.split("."))
            word = next((plan[key] for key in plan if pattern.endswith(key)), "")
            if name == "lm_head" or word.startswith("colwise"):
                styles[name] = ColwiseParallel()
            elif word.startswith("rowwise"):
                styles[name] = RowwiseParallel()
    table, head = module.get_input_embeddings(), module.get_output_embeddings()
    tied = head is not None and head.weight is table.weight
    parallelize_module(module, mesh, styles)
    if tied:
        # Each got a parameter of its own, of the same rows.
        head.weight = table.weight
