"""FLOPs of a pass; a multiply-add is 2.

The convention is that of torch's counter (`torch.utils.flop_counter`) and of published MFU figures:
every matrix product and every attention counts in full, without a discount for causal masks or
windows; lookups, biases, norms and elementwise functions count nothing. A tied head still multiplies.
What torch's counter does not see, the scan of a recurrent layer, is an estimate and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sizer.core.dims import Dim, is_array
from sizer.core.record import Record
from sizer.core.tree import State
from sizer.core.walk import Row
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.count import COMPONENTS
from sizer.measures.latents import WAYS, absorbed, check_way, expanding, reading_values
from sizer.measures.passes import Pass, check_positive
from sizer.measures.products import Part, as_products, part_of
from sizer.measures.recompute import checkpointing_of, recomputed
from sizer.measures.scans import SCANS
from sizer.measures.streams import check_places, idle_parts, own_places, untrained_parts, with_streams

# What a backward pass costs depends on whether the kernel keeps the scores or computes them anew.
KERNELS = {
    "eager": "scores are kept: backward is 2 × forward",
    "sdpa": "scaled_dot_product_attention as matrix products: backward is 2 × forward",
    "efficient": "scores are computed anew: backward is 2·(3·Dqk + 2·Dv) a head and pair",
    "flash": "scores are computed anew: backward is 2.5 × forward",
}
KERNEL_ALIASES = {
    "math": "sdpa",
    "mem_efficient": "efficient",
    "xformers": "efficient",
    "cudnn": "flash",
    "flash_attention_2": "flash",
    "flash_attention_3": "flash",
    "flex_attention": "flash",
}

NOT_COUNTED = "norms, biases, activations, softmax, rotary positions and lookups count 0 FLOPs"
FULL_ATTENTION = "attention counts every pair of tokens, without a discount for causal masks or windows"
ONE_BY_ONE = "estimate: a convolution runs once for each token that it gives"
COUNTER = "convention of torch.utils.flop_counter (torch 2.13): a multiply-add is 2 FLOPs"


class Flops(Record):
    """FLOPs of one step.

    `backward` includes what gradient checkpointing computes anew, which is `recompute`.
    `components`: the forward pass by component. `kinds`: the same by what computes it.
    `estimated`: the share of the forward pass that is an estimate. `tokens`: of all sequences.
    `latents`: how those that a cache keeps are read, a key of `WAYS`; `None` where there are none.
    `own_input`: the configuration says how large an input is, as of an image; `tokens` are what it becomes.
    """

    __slots__ = (
        "assumptions",
        "backward",
        "backward_components",
        "components",
        "estimated",
        "forward",
        "kinds",
        "latents",
        "own_input",
        "parts",
        "recompute",
        "tokens",
        "training",
    )

    def __init__(
        self,
        forward: Dim,
        backward: Dim,
        recompute: Dim,
        parts: Sequence[Part],
        tokens: Dim,
        assumptions: Sequence[str] = (),
        latents: str | None = None,
        own_input: bool = False,
    ) -> None:
        self.forward = forward
        self.backward = backward + recompute
        self.recompute = recompute
        self.training = self.forward + self.backward
        self.parts = parts
        self.tokens = tokens
        self.assumptions = list(assumptions)
        self.latents = latents
        self.own_input = own_input
        self.components = _by_component(parts, "forward")
        self.backward_components = _by_component(parts, "backward")
        self.kinds: dict[str, Dim] = {}
        for part in parts:
            self.kinds[part.kind] = self.kinds.get(part.kind, 0) + part.forward
        self.estimated = sum((part.forward for part in parts if not part.exact), start=0)

    @property
    def exact(self) -> bool:
        """Whether no part is an estimate."""
        return all(part.exact for part in self.parts)


def _by_component(parts: Iterable[Part], field: str) -> dict[str, Dim]:
    sums: dict[str, Dim] = {}
    for part in parts:
        sums[part.row.component] = sums.get(part.row.component, 0) + getattr(part, field)
    return {name: sums[name] for name in (*COMPONENTS, *sums) if name in sums}


def flops(
    rows: Iterable[Row],
    *,
    batch_size: Dim = 1,
    seq_len: Dim = 1024,
    encoder_len: Dim | None = None,
    decoder_len: Dim | None = None,
    past_len: Dim = 0,
    chunk: int | None = None,
    decode: int | None = None,
    logits_to_keep: Dim | None = None,
    stream_lengths: dict[str, Dim] | None = None,
    attention: str = "eager",
    checkpointing: bool | str = False,
    causal: bool = False,
    lora: str | None = None,
    latents: str = "expanded",
) -> Flops:
    """FLOPs of a pass over `batch_size` sequences of `seq_len` tokens.

    `encoder_len`, `decoder_len`: lengths of the two sequences of an encoder-decoder, `seq_len` unless
    given. `past_len`: tokens that are in the cache already. `chunk`: the tokens run in passes of that
    many. `decode`: after `seq_len` tokens in the cache, that many more, one at a time.
    `logits_to_keep`: of the new tokens of a pass, the head reads only the last.
    `checkpointing`: "full" (blocks are computed anew, as `torch.utils.checkpoint` does, which stops
    before a block's last matrix), "selective" (attention alone, Korthikanti et al. 2022) or "matmuls"
    (blocks, whose matrix products are kept: torch's `create_selective_checkpoint_contexts`).
    `causal`: count only the pairs of tokens that a causal mask and a window leave.
    `lora`: "r=8,target=q_proj+v_proj", the adapters that are trained, and nothing else.
    `latents`: how latents in a cache are read, "expanded" as transformers does or "absorbed" as engines do.

    >>> import sizer
    >>> flops(sizer.load("gpt2-small").rows()).forward
    291648307200
    """
    kernel = kernel_of(attention)
    mode = checkpointing_of(checkpointing)
    check_way(latents)
    check_positive(
        batch_size=batch_size,
        seq_len=seq_len,
        encoder_len=encoder_len,
        decoder_len=decoder_len,
        chunk=chunk,
        decode=decode,
        logits_to_keep=logits_to_keep,
        **(stream_lengths or {}),
    )
    if isinstance(past_len, int) and past_len < 0:
        raise InvalidConfig(f"past_len = {past_len} is negative; it counts the tokens in the cache")
    run = _pass(
        batch_size,
        seq_len if decoder_len is None else decoder_len,
        past_len,
        chunk,
        decode,
        encoder=seq_len if encoder_len is None else encoder_len,
        encoder_given=encoder_len is not None,
        lengths=stream_lengths,
        causal=causal,
        logits=logits_to_keep,
    )
    rows = list(rows)
    products = as_products(rows, kernel, frozen=lora is not None)
    found = flops_of(rows, run, kernel=kernel, mode=mode, products=products, latents=latents)
    if lora is None:
        return found
    from sizer.measures.adapters import with_lora
    from sizer.measures.lora import parse

    if mode != "none":
        raise InvalidConfig("lora and checkpointing are not counted together; leave one out")
    return with_lora(found, parse(lora), rows, run)


def kernel_of(attention: str) -> str:
    """The kernel of that name."""
    name = KERNEL_ALIASES.get(attention, attention)
    if name not in KERNELS:
        raise UnknownName(
            "attention kernel", attention, [*KERNELS, *KERNEL_ALIASES], hint=f"known are {', '.join(KERNELS)}"
        )
    return name


def _pass(batch: Dim, new: Dim, past: Dim, chunk: int | None, decode: int | None, **rest: object) -> Pass:
    if decode is not None and chunk is not None:
        raise InvalidConfig("chunk splits a prefill and decode follows one; give one of the two")
    if decode is not None:
        return Pass(batch, 1, past + new, decode, 0, **rest)  # type: ignore[arg-type]
    if chunk is None or chunk >= new:
        return Pass(batch, new, past, **rest)  # type: ignore[arg-type]
    return Pass(batch, chunk, past, *divmod(new, chunk), **rest)  # type: ignore[arg-type]


def flops_of(
    rows: Sequence[Row],
    run: Pass,
    *,
    kernel: str = "eager",
    mode: str = "none",
    products: frozenset[str] | None = None,
    latents: str = "expanded",
) -> Flops:
    """FLOPs of a pass: `flops` after its arguments are read.

    `products`: the attentions that run as matrix products, for rows over letters that do not tell.
    """
    run = with_streams(rows, run)
    check_places(rows)
    own = own_places(rows, run)
    keeps = any(isinstance(row.leaf, State) and row.stream != "encoder" for row in rows)
    plain = as_products(rows, kernel) if products is None else products
    idle, untrained = idle_parts(rows, run), untrained_parts(rows)
    # What a cache keeps as latents; without one, all tokens are new.
    kept = expanding(rows) if run.cached else {}
    anew = {name: run.keys(latent.window) for name, latent in kept.items()}
    if run.cached:
        anew |= dict.fromkeys(reading_values(rows), run.keys(None))
    if kept and latents == "absorbed":
        rows, anew = absorbed(rows), {name: tokens for name, tokens in anew.items() if name not in kept}
    parts: list[Part] = []
    for row in rows:
        part = part_of(row, run, kernel, keeps, plain, anew.get(row.name))
        if part is not None:
            if idle and row.name.startswith(idle):
                part = part._replace(forward=0, backward=0)
            elif untrained and row.name.startswith(untrained):
                part = part._replace(backward=0)
            parts.append(part)
    _check(parts, run, kernel, keeps)
    forward: Dim = 0
    backward: Dim = 0
    for part in parts:
        forward = forward + part.forward
        backward = backward + part.backward
    recompute = 0 if run.cached else recomputed(rows, parts, mode)
    assumptions = _assumptions(parts, run, kernel)
    if kept:
        assumptions.append(WAYS[latents])
    if untrained and not run.cached:
        assumptions.append("an indexer picks tokens and has no backward pass")
    if idle:
        assumptions.append("there is no encoder to attend to; give encoder_len if there is one outside")
    if plain and kernel != "eager" and not run.cached:
        assumptions.append(
            "attention with learned biases of its scores, or with keys and values of different widths, "
            "cannot use torch's flash kernel and runs as matrix products"
        )
    read = latents if kept else None
    tokens = run.tokens if own is None else own
    return Flops(forward, backward, recompute, parts, tokens * run.batch, assumptions, read, own is not None)


def _check(parts: Sequence[Part], run: Pass, kernel: str, keeps: bool) -> None:
    if kernel in ("flash", "efficient") and not any(part.kind == "attention" for part in parts):
        raise InvalidConfig(f"attention = {kernel}: this architecture has no attention; drop the kernel")
    if run.cached and not keeps:
        raise InvalidConfig(
            "this architecture keeps no cache, so there are no decoding steps or chunks to count; "
            "leave past_len, chunk and decode out"
        )


def _assumptions(parts: Sequence[Part], run: Pass, kernel: str) -> list[str]:
    found = [COUNTER, NOT_COUNTED]
    if any(part.kind == "attention" for part in parts):
        found.append(
            "attention counts the pairs that a causal mask and a window leave"
            if run.causal
            else FULL_ATTENTION
        )
        if not run.cached:
            found.append(f"{kernel} attention, {KERNELS[kernel]}")
    if run.cached:
        found.append("a pass with a cache has no backward pass")
    for kind in dict.fromkeys(part.kind for part in parts if not part.exact):
        found.append(
            f"estimate: {kind}, {SCANS[kind].text} ({SCANS[kind].source})" if kind in SCANS else ONE_BY_ONE
        )
    silent = dict.fromkeys(
        part.row.stream for part in parts if part.row.stream in run.lengths and _nothing(part.forward)
    )
    found += [f"the {stream} tower does not run; give its tokens (--stream {stream}=N)" for stream in silent]
    return found


def _nothing(size: Dim) -> bool:
    return not size.any() if is_array(size) else bool(size == 0)
