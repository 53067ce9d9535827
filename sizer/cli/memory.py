"""`sizer memory`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
from sizer.errors import UnknownName
from sizer.measures.optimizers import OPTIMIZERS
from sizer.measures.step.experts import IMPLEMENTATIONS
from sizer.measures.step.simulate import KERNELS, OFFLOADS, PRECISIONS, settings
from sizer.model import Model
from sizer.report import memory as report
from sizer.report.report import Report


@click.command("memory", cls=Command)
@model_options
@click.option("--mode", default="train", show_default=True, metavar="NAME", help="train or infer.")
@click.option("--batch-size", type=int, default=1, show_default=True, help="Sequences.")
@click.option("--seq-len", type=int, default=1024, show_default=True, help="Tokens a sequence.")
@click.option("--precision", default="bf16", show_default=True, help=f"Training: {', '.join(PRECISIONS)}.")
@click.option("--optimizer", default="adamw", show_default=True, help=f"Training: {', '.join(OPTIMIZERS)}.")
@click.option("--attention", default="sdpa", show_default=True, help=f"The kernel: {', '.join(KERNELS)}.")
@click.option("--checkpointing", default="none", show_default=True, help="none, selective, matmuls, full.")
@click.option("--experts", default="grouped_mm", show_default=True, help=f"{', '.join(IMPLEMENTATIONS)}.")
@click.option("--offload", default="none", show_default=True, help=f"To the host: {', '.join(OFFLOADS)}.")
@click.option("--loss-chunks", type=int, default=1, metavar="N", help="The loss in chunks of the tokens.")
@click.option("--foreach", is_flag=True, help="The optimizer works on all parameters at once.")
@click.option("--master-weights", is_flag=True, help="An fp32 copy of the weights, and fp32 state.")
@click.option("--lora", metavar="r=8,target=q_proj+v_proj", help="Train adapters beside frozen weights.")
@click.option("--freeze", multiple=True, metavar="MODULE", help="A module that is not trained.")
@click.option("--dtype", default="bf16", show_default=True, help="Inference: the type of the weights.")
@click.option("--quant", metavar="NAME", help="The format of the weights (sizer size); with --lora, QLoRA.")
@click.option("--kv-dtype", help="Inference: the type of the cache, that of the weights unless given.")
@click.option("--estimate", metavar="NAME", help="A published formula: korthikanti, deepspeed-zero2, …")
@click.option("--gpus", type=int, default=1, help="For published formulas that divide by them.")
@click.option("--ledger", is_flag=True, help="List every tensor that is kept for the backward pass.")
@click.option("--explain", is_flag=True, help="The formula, the values and what was assumed.")
@click.option("--unit", default="auto", show_default=True, help=f"{', '.join(report.UNITS)}.")
@click.option("--plot", metavar="FILE", help="Draw the parts, stacked (svg, png, pdf; - for text).")
@click.option("--along", default="seq-len", show_default=True, metavar="NAME", help="seq-len or batch-size.")
@output_options
def command(model: Model, plot: str | None, along: str, **options: Any) -> Report:
    """The memory of a training step, with its peak, or of inference.

    \b
    sizer memory gpt2-small --batch-size 8 --seq-len 1024
    sizer memory llama-3-8b --mode infer --seq-len 8192 --unit GiB
    sizer memory llama-7b --lora r=8,target=q_proj+v_proj --checkpointing full
    sizer memory llama-7b --lora r=8,target=q_proj+v_proj --quant nf4
    sizer memory llama-3-8b --mode infer --seq-len 8192 --plot memory.svg
    """
    if along not in report.ALONG:
        raise UnknownName("axis", along, report.ALONG, hint=" or ".join(report.ALONG))
    if plot is not None:
        return _drawn(model, plot, along, options)
    return _answer(model, **options)


def _drawn(model: Model, plot: str, along: str, options: dict[str, Any]) -> Report:
    """The answer, and its parts drawn over lengths, or sizes of a batch, around the one that is asked for."""
    from sizer.report import bars, figure, memory_plot

    figure.check(plot, text=True)
    answer, name = _answer(model, **options), along.replace("-", "_")

    def at(size: int) -> Any:
        asked = size == options[name]
        return (answer if asked else _answer(model, **{**options, name: size})).document()

    found = memory_plot.stacks(options[name], at)
    if plot == figure.TEXT:
        return bars.below(answer, memory_plot.lines(found, along))
    memory_plot.draw(plot, along, found, title=f"{model.name}: {options['mode']}")
    return answer


def _answer(model: Model, *, mode: str, estimate: str | None, ledger: bool, **options: Any) -> Report:
    def some(*names: str) -> dict[str, Any]:
        return {name: options[name] for name in names}

    if mode not in ("train", "infer"):
        raise UnknownName("mode", mode, ("train", "infer"), hint="train or infer")
    if estimate is not None:
        sizes = some("batch_size", "seq_len", "checkpointing", "gpus")
        return report.published_report(model, estimate, unit=options["unit"], **sizes)
    shape = some("batch_size", "seq_len", "attention")
    told = some("quant", "explain", "unit")
    if mode == "infer":
        return report.infer_report(model, **shape, **told, **some("dtype", "kv_dtype"))
    step = some("precision", "checkpointing", "lora", "experts", "offload", "loss_chunks")
    how = settings(**shape, **step, frozen=options["freeze"])
    if ledger:
        return report.ledger_report(model, how, unit=options["unit"])
    return report.train_report(model, how, **told, **some("optimizer", "foreach", "master_weights"))
