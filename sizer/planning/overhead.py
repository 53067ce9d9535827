"""What a runtime takes beside tensors: an estimate for each engine, with where it is from."""

from __future__ import annotations

from sizer.planning.job import Job
from sizer.planning.layout import Layout

MIB = 2**20

# vLLM's "non_torch_memory" in seven public startup logs of one rank: 0.04, 0.05, 0.08, 0.11, 0.26, 1.39
# and 1.79 GiB, the median of which is taken; with eight ranks 2.10 GiB, NCCL's buffers and those of its
# own all-reduce. CUDA graphs (0.1 to 1 GiB) are outside of its share of the memory.
VLLM_ALONE, VLLM_RANKS = 110 * MIB, 2150 * MIB
# A CUDA context with PyTorch's libraries, and cuBLAS's workspace; NCCL's channels beside it.
CONTEXT, WORKSPACE, NCCL = 500 * MIB, 32 * MIB, 1024 * MIB


def overhead(job: Job, layout: Layout) -> tuple[int, str]:
    """Bytes and what they are.

    >>> overhead(Job(engine="vllm"), Layout())[0] / MIB
    110.0
    """
    if job.overhead is not None:
        return job.overhead, "as given"
    several = layout.gpus > 1
    if job.engine == "vllm":
        return (
            VLLM_RANKS if layout.tp * layout.pp > 1 else VLLM_ALONE
        ), "beside tensors, as vLLM's logs name it"
    if job.engine == "none" and not job.trains:
        return 0, ""
    if job.engine == "llama.cpp":
        return CONTEXT, "CUDA context"
    return CONTEXT + WORKSPACE + NCCL * several, "CUDA context, workspaces" + (", NCCL" if several else "")
