"""`sizer memory`."""

from __future__ import annotations

from typing import Any

import click

from sizer.cli.command import Command
from sizer.cli.options import model_options, output_options
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
@click.option("--checkpointing", default="none", show_default=True, help="Training: none, selective, full.")
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
def command(
    model: Model,
    mode: str,
    batch_size: int,
    seq_len: int,
    plot: str | None,
    along: str,
    **options: Any,
) -> Report:
    """The memory of a training step, with its peak, or of inference.

    \b
    sizer memory gpt2-small --batch-size 8 --seq-len 1024
    sizer memory llama-3-8b --mode infer --seq-len 8192 --unit GiB
    sizer memory llama-7b --lora r=8,target=q_proj+v_proj --checkpointing full
    sizer memory llama-7b --lora r=8,target=q_proj+v_proj --quant nf4
    sizer memory llama-3-8b --mode infer --seq-len 8192 --plot memory.svg
    """
    answer = _answer(model, mode, batch_size, seq_len, **options)
    if plot is None:
        return answer
    from sizer.report import bars, figure, memory_plot

    memory_plot.check(plot, along)
    sizes = {"seq-len": (batch_size, None), "batch-size": (None, seq_len)}[along]

    def at(size: int) -> Any:
        return _answer(model, mode, sizes[0] or size, sizes[1] or size, **options).document()

    found = memory_plot.stacks(seq_len if along == "seq-len" else batch_size, at)
    if plot == figure.TEXT:
        return bars.below(answer, memory_plot.lines(found, along))
    memory_plot.draw(plot, along, found, title=f"{model.name}: {mode}")
    return answer


def _answer(
    model: Model,
    mode: str,
    batch_size: int,
    seq_len: int,
    *,
    precision: str,
    optimizer: str,
    attention: str,
    checkpointing: str,
    experts: str,
    offload: str,
    loss_chunks: int,
    foreach: bool,
    master_weights: bool,
    lora: str | None,
    freeze: tuple[str, ...],
    dtype: str,
    quant: str | None,
    kv_dtype: str | None,
    estimate: str | None,
    gpus: int,
    ledger: bool,
    explain: bool,
    unit: str,
) -> Report:
    if mode not in ("train", "infer"):
        from sizer.errors import UnknownName

        raise UnknownName("mode", mode, ("train", "infer"), hint="train or infer")
    if estimate is not None:
        sizes = {"batch_size": batch_size, "seq_len": seq_len, "checkpointing": checkpointing, "gpus": gpus}
        return report.published_report(model, estimate, unit=unit, **sizes)
    if mode == "infer":
        return report.infer_report(
            model,
            batch_size=batch_size,
            seq_len=seq_len,
            dtype=dtype,
            kv_dtype=kv_dtype,
            attention=attention,
            explain=explain,
            unit=unit,
            quant=quant,
        )
    how = settings(
        batch_size=batch_size,
        seq_len=seq_len,
        precision=precision,
        attention=attention,
        checkpointing=checkpointing,
        lora=lora,
        frozen=freeze,
        experts=experts,
        offload=offload,
        loss_chunks=loss_chunks,
    )
    if ledger:
        return report.ledger_report(model, how, unit=unit)
    return report.train_report(
        model,
        how,
        optimizer=optimizer,
        foreach=foreach,
        master_weights=master_weights,
        explain=explain,
        unit=unit,
        quant=quant,
    )
