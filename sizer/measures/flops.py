"""FLOPs of a pass; a multiply-add is 2.

The convention is that of torch's counter (`torch.utils.flop_counter`) and of published MFU figures:
every matrix product and every attention counts in full, without a discount for causal masks or
windows; lookups, biases, norms and elementwise functions count nothing. A tied head still multiplies.
What torch's counter does not see, the scan of a recurrent layer, is an estimate and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sizer.core.dims import Dim
from sizer.core.poly import exact_quotient
from sizer.core.record import Record
from sizer.core.tree import Op, Param, State
from sizer.core.walk import Row
from sizer.errors import InvalidConfig, UnknownName
from sizer.measures.count import COMPONENTS
from sizer.measures.passes import Pass, check_positive
from sizer.measures.scans import SCANS

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
ATTENTION = ("attention", "cross_attention")
CHECKPOINTING = ("none", "selective", "full")

NOT_COUNTED = "norms, biases, activations, softmax, rotary positions and lookups count 0 FLOPs"
FULL_ATTENTION = "attention counts every pair of tokens, without a discount for causal masks or windows"
COUNTER = "convention of torch.utils.flop_counter (torch 2.13): a multiply-add is 2 FLOPs"


class Part(Record):
    """FLOPs of one row of the tree: of its forward and backward pass, and of computing it anew.

    `kind`: "matmul", "attention", or the kind of a scan. `exact`: false for what is an estimate.
    """

    __slots__ = ("backward", "exact", "forward", "kind", "row")

    def __init__(self, row: Row, kind: str, forward: Dim, backward: Dim, exact: bool) -> None:
        self.row = row
        self.kind = kind
        self.forward = forward
        self.backward = backward
        self.exact = exact


class Flops(Record):
    """FLOPs of one step.

    `backward` includes what gradient checkpointing computes anew, which is `recompute`.
    `components`: the forward pass by component. `kinds`: the same by what computes it.
    `estimated`: the share of the forward pass that is an estimate. `tokens`: of all sequences.
    """

    __slots__ = (
        "assumptions",
        "backward",
        "backward_components",
        "components",
        "estimated",
        "forward",
        "kinds",
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
    ) -> None:
        self.forward = forward
        self.backward = backward + recompute
        self.recompute = recompute
        self.training = self.forward + self.backward
        self.parts = parts
        self.tokens = tokens
        self.assumptions = list(assumptions)
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
) -> Flops:
    """FLOPs of a pass over `batch_size` sequences of `seq_len` tokens.

    `encoder_len`, `decoder_len`: lengths of the two sequences of an encoder-decoder, `seq_len` unless
    given. `past_len`: tokens that are in the cache already. `chunk`: the tokens run in passes of that
    many. `decode`: after `seq_len` tokens in the cache, that many more, one at a time.
    `logits_to_keep`: of the new tokens of a pass, the head reads only the last.
    `checkpointing`: "full" (blocks are computed anew, as `torch.utils.checkpoint` does, which stops
    before a block's last matrix) or "selective" (attention alone, Korthikanti et al. 2022).
    `causal`: count only the pairs of tokens that a causal mask and a window leave.
    `lora`: "r=8,target=q_proj+v_proj", the adapters that are trained, and nothing else.

    >>> import sizer
    >>> flops(sizer.load("gpt2-small").rows()).forward
    291648307200
    """
    kernel = kernel_of(attention)
    mode = checkpointing_of(checkpointing)
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
    found = flops_of(list(rows), run, kernel=kernel, mode=mode)
    if lora is None:
        return found
    from sizer.measures.adapters import with_lora
    from sizer.measures.lora import parse

    if mode != "none":
        raise InvalidConfig("lora and checkpointing are not counted together; leave one out")
    return with_lora(found, parse(lora))


def kernel_of(attention: str) -> str:
    """The kernel of that name."""
    name = KERNEL_ALIASES.get(attention, attention)
    if name not in KERNELS:
        raise UnknownName(
            "attention kernel", attention, [*KERNELS, *KERNEL_ALIASES], hint=f"known are {', '.join(KERNELS)}"
        )
    return name


def checkpointing_of(checkpointing: bool | str) -> str:
    """The kind of gradient checkpointing: `True` is "full"."""
    if isinstance(checkpointing, bool):
        return "full" if checkpointing else "none"
    if checkpointing not in CHECKPOINTING:
        raise UnknownName(
            "kind of checkpointing",
            checkpointing,
            CHECKPOINTING,
            hint=f"known are {', '.join(CHECKPOINTING)}",
        )
    return checkpointing


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
) -> Flops:
    """FLOPs of a pass: `flops` after its arguments are read.

    `products`: the attentions that run as matrix products, for rows over letters that do not tell.
    """
    run = _with_streams(rows, run)
    keeps = any(isinstance(row.leaf, State) and row.stream != "encoder" for row in rows)
    plain = as_products(rows, kernel) if products is None else products
    idle, untrained = _idle(rows, run), _untrained(rows)
    parts: list[Part] = []
    for row in rows:
        part = _part(row, run, kernel, keeps, plain)
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
    recompute = 0 if run.cached else _recomputed(rows, parts, mode)
    assumptions = _assumptions(parts, run, kernel)
    if untrained and not run.cached:
        assumptions.append("an indexer picks tokens and has no backward pass")
    if idle:
        assumptions.append("there is no encoder to attend to; give encoder_len if there is one outside")
    if plain and kernel != "eager" and not run.cached:
        assumptions.append(
            "attention with learned biases of its scores, or with keys and values of different widths, "
            "cannot use torch's flash kernel and runs as matrix products"
        )
    return Flops(forward, backward, recompute, parts, run.tokens * run.batch, assumptions)


def as_products(rows: Sequence[Row], kernel: str) -> frozenset[str]:
    """The attentions that torch's flash kernel cannot run, which then are matrix products.

    It takes no mask that needs a gradient, as T5's biases by distance do, and no values of another
    width than the keys (torch 2.13, `sdp_utils`: `check_head_dim_size`).
    """
    if kernel != "flash":
        return frozenset()
    biased = {row.name.rsplit(".", 2)[0] for row in rows if _is_table_of_distances(row)}
    return frozenset(
        row.name
        for row in rows
        if isinstance(row.leaf, Op)
        and row.leaf.kind in ATTENTION
        and (row.name.rsplit(".", 1)[0] in biased or row.leaf.sizes["d_qk"] != row.leaf.sizes["d_v"])
    )


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
        found.append(f"estimate: {kind}, {SCANS[kind].text} ({SCANS[kind].source})")
    silent = dict.fromkeys(
        part.row.stream for part in parts if part.row.stream in run.lengths and part.forward == 0
    )
    found += [f"the {stream} tower does not run; give its tokens (--stream {stream}=N)" for stream in silent]
    return found


def _with_streams(rows: Sequence[Row], run: Pass) -> Pass:
    """Towers beside the text do not run unless their length is given; a model of one tower is that tower."""
    streams = {row.stream for row in rows if isinstance(row.leaf, Param) and row.leaf.use == "matmul"}
    unknown = set(run.lengths) - streams
    if unknown:
        have = ", ".join(sorted(streams - {""})) or "no other stream than its text"
        raise UnknownName("stream", min(unknown), streams - {""}, hint=f"this model has {have}")
    towers = streams - {"", "encoder", "patches", *run.lengths}
    crossed = any(_reads_the_encoder(row) for row in rows)
    if streams >= {"", "encoder"} and not crossed and not run.encoder_given:
        # An encoder whose output joins the text, as one of sound does.
        towers.add("encoder")
    if not towers:
        return run
    length: Dim = 0 if streams & {"", "encoder"} else run.tokens
    return run._replace(lengths={**run.lengths, **dict.fromkeys(towers, length)})


def _idle(rows: Sequence[Row], run: Pass) -> tuple[str, ...]:
    """Where the cross-attentions stand of a decoder by itself, which nothing is read from."""
    if run.encoder_given or not run.encodes:
        return ()
    crossed = set()
    for row in rows:
        if isinstance(row.leaf, Op) and row.leaf.kind == "cross_attention":
            place = row.name.rpartition(".")[0]
            crossed.add(place.removesuffix(".self") + ".")
    places = tuple(sorted(crossed))
    # Keys and values of an encoder, and nothing else of it.
    encoded = [
        row for row in rows if row.stream == "encoder" and isinstance(row.leaf, Param) and row.leaf.use
    ]
    if not encoded or not all(row.name.startswith(places) for row in encoded):
        return ()
    return places


def _untrained(rows: Sequence[Row]) -> tuple[str, ...]:
    """Where indexers stand: they pick tokens, and no gradient passes through a choice."""
    found = {
        row.name.rpartition(".")[0] + "."
        for row in rows
        if isinstance(row.leaf, State) and row.leaf.name in ("index", "index_keys")
    }
    return tuple(sorted(found))


def _reads_the_encoder(row: Row) -> bool:
    leaf = row.leaf
    return (isinstance(leaf, Op) and leaf.kind == "cross_attention") or (
        isinstance(leaf, Param) and leaf.use == "cross_qkv_matmul"
    )


def _part(row: Row, run: Pass, kernel: str, keeps: bool, plain: frozenset[str]) -> Part | None:
    leaf = row.leaf
    if isinstance(leaf, Param):
        amount = _matmul(row, leaf, run)
        if amount is None:
            return None
        amount = amount * run.batch * row.visits
        # A frozen matrix passes the gradient on and has none of its own.
        backward = 0 if run.cached else amount * (2 if leaf.trainable else 1)
        return Part(row, "matmul", amount, backward, True)
    if not isinstance(leaf, Op):
        return None
    sizes = leaf.sizes
    if leaf.kind in ATTENTION:
        per_pair, back = _core(leaf, "sdpa" if row.name in plain else kernel)
        pairs: Dim = _pairs(row, leaf, run, keeps) * run.batch * row.visits
        return Part(row, "attention", pairs * per_pair, 0 if run.cached else pairs * back, True)
    if leaf.kind == "matmul":
        length = run.head_tokens if row.component == "head" else run.length(row.stream)
        amount = 2 * length * sizes["out"] * sizes["in"] * run.batch * row.visits
        return Part(row, "matmul", amount, 0 if run.cached else 2 * amount, True)
    if leaf.kind in SCANS:
        scan = SCANS[leaf.kind]
        amount = scan.per_token(sizes, run) * run.length(row.stream) * run.batch * row.visits
        return Part(row, leaf.kind, amount, 0 if run.cached else 2 * amount, scan.exact)
    return None


def _matmul(row: Row, leaf: Param, run: Pass) -> Dim | None:
    """FLOPs of one visit of a weight by one sequence; `None` where it multiplies nothing."""
    use = leaf.use
    if use == "matmul":
        length = run.head_tokens if row.component == "head" and not row.stream else run.length(row.stream)
        return 2 * length * (row.numel if leaf.active is None else leaf.active)
    if use == "pooled":
        return 2 * (row.numel if leaf.active is None else leaf.active)
    if use == "cross_qkv_matmul":
        # One fused matrix: queries run over the decoder's tokens, keys and values over the encoder's.
        third = leaf.axes[0].parts[0].size * leaf.axes[1].size
        return 2 * third * (run.tokens + 2 * run.length("encoder"))
    return None


def _core(leaf: Op, kernel: str) -> tuple[Dim, Dim]:
    """FLOPs of a pair of tokens, forward and backward.

    Forward is two products: q·k and score·v. Backward is four of them; a kernel that computes the
    scores anew has one more, of the width of q (torch's `sdpa_backward_flop_count`).
    """
    heads, d_qk, d_v = leaf.sizes["heads"], leaf.sizes["d_qk"], leaf.sizes["d_v"]
    forward = 2 * heads * (d_qk + d_v)  # type: ignore[operator]
    if kernel in ("flash", "efficient"):
        return forward, 2 * heads * (3 * d_qk + 2 * d_v)  # type: ignore[operator]
    return forward, 2 * forward


def _pairs(row: Row, leaf: Op, run: Pass, keeps: bool) -> Dim:
    if leaf.kind == "cross_attention":
        return run.length(row.stream) * run.encoder
    if row.stream:
        length = run.length(row.stream)
        return length * length
    return run.pairs(leaf.sizes.get("window"), masked=keeps)


def _is_table_of_distances(row: Row) -> bool:
    """Whether a row is a learned bias of the scores by distance, as T5's."""
    return isinstance(row.leaf, Param) and any(axis.name == "buckets" for axis in row.leaf.axes)


# -- gradient checkpointing -----------------------------------------------------------------------


def _recomputed(rows: Sequence[Row], parts: Sequence[Part], mode: str) -> Dim:
    """What a backward pass computes anew.

    Full: every block's forward pass. torch stops once it has the last tensor that was kept, which
    is the input of the block's last matrix where nothing after it keeps its output.
    """
    if mode == "none":
        return 0
    total: Dim = 0
    if mode == "selective":
        for part in parts:
            if part.kind == "attention" and part.row.frames:
                total = total + part.forward
        return total
    for part in parts:
        if part.row.frames:
            total = total + part.forward
    for part, share in _not_needed(rows, parts):
        total = total - exact_quotient(part.forward * share, part.row.frames[0].count)
    return total


def _not_needed(rows: Sequence[Row], parts: Sequence[Part]) -> list[tuple[Part, int]]:
    """The last matrices of the blocks, each with the number of blocks that it ends."""
    part_of = {id(part.row): part for part in parts}
    open_: dict[str, set[int]] = {}
    found: list[tuple[Part, int]] = []
    for row in reversed(rows):
        if not row.frames or row.frames[0].indices is None or isinstance(row.leaf, State):
            continue
        block = row.name.partition("{}")[0]
        layers = set(row.frames[0].indices)
        seen = open_.setdefault(block, set())
        ends = layers - seen
        part = part_of.get(id(row))
        if ends and part is not None and _ends_a_block(row):
            found.append((part, len(ends)))
        if part is not None or _keeps_its_input(row):
            seen |= layers
    return found


def _ends_a_block(row: Row) -> bool:
    """Whether nothing keeps the output of a matrix: it goes into the sum with the residual.

    The outputs of routed experts are weighted, and kept for that.
    """
    leaf = row.leaf
    if not isinstance(leaf, Param) or leaf.use != "matmul" or leaf.active is not None:
        return False
    routed = any(frame.active is not frame.count and frame.active != frame.count for frame in row.frames[1:])
    first, last = leaf.axes[0].name, leaf.axes[-1].name
    return not routed and (first == "embed" or (last == "embed" and first in ("ffn", "heads")))


def _keeps_its_input(row: Row) -> bool:
    return isinstance(row.leaf, Op) or row.component == "norm" or row.kind.endswith("norm")
