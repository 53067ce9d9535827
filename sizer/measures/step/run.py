"""A training step of the model that a tree describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sizer.core.dims import Dim
from sizer.core.layers import MATRICES
from sizer.core.tree import Leaf, Module, Op, Param
from sizer.errors import InvalidConfig
from sizer.measures.step import modules, ops
from sizer.measures.step.flows import FLOWS
from sizer.measures.step.norms import NORMS
from sizer.measures.step.parts import is_matrix, joined
from sizer.measures.step.rotary import Angles
from sizer.measures.step.tape import Tape
from sizer.measures.step.tensors import Storage, Tensor, numel

if TYPE_CHECKING:
    from sizer.measures.lora import LoRA


# Precisions that keep weights in 16 bits.
BF16_WEIGHTS = ("bf16", "fp8")


class Run:
    """One step over `batch` sequences of `length` tokens."""

    def __init__(
        self,
        tape: Tape,
        *,
        batch: Dim,
        length: Dim,
        precision: str,
        attention: str,
        checkpointing: bool,
        lora: LoRA | None = None,
        frozen: tuple[str, ...] = (),
        each_named: bool = True,
        routed: str = "grouped_mm",
        core_again: bool = False,
        keeps_products: bool = False,
        offload_activations: bool = False,
        loss_chunks: int = 1,
    ) -> None:
        self.tape = tape
        self.batch = batch
        self.length = length
        self.weight_dtype = "bf16" if precision in BF16_WEIGHTS else "fp32"
        self.fp8 = precision == "fp8"
        self.autocast = precision == "autocast"
        self.attention = attention
        self.checkpointing = checkpointing
        self.lora = lora
        self.frozen = frozen
        # Whether a layer that others are like is named alone, or as all of them.
        self.each_named = each_named
        self.routed = routed
        # The core of attention runs again in the backward pass (selective checkpointing).
        self.core_again = core_again
        # What is run again takes the outputs of matrix products from the first time.
        self.keeps_products = keeps_products
        self.offload_activations = offload_activations
        self.loss_chunks = loss_chunks
        self.casts: dict[str, Tensor] = {}
        # Of layers with a window and without.
        self.masks: dict[bool, Tensor] = {}
        # The kinds of those that a part has used.
        self.seen: set[bool] = set()
        self.places: Tensor | None = None
        # What the encoder gives to the decoder; biases by distance, and those of the encoder's tokens.
        self.source: Tensor | None = None
        self.biases: dict[bool, Tensor] = {}
        # Whether the layers of a stack share an input that needs a gradient.
        self.has_shared = False
        # Cosines and sines for layers with a window and without.
        self.rotary: dict[bool, Angles] = {}
        self.parameters: dict[str, Tensor] = {}
        # The layer that is being run, for the parts that stand in some layers only.
        self.layer = 0
        # Names of the buffers of ids beside the embeddings.
        self.buffers: set[str] = set()
        self.lumps: list[Storage] = []
        # What a block's own variables still hold when its parts are done: the attention's weights.
        self.held: list[Tensor] = []
        self.summands: tuple[Tensor, ...] = ()
        # What matrices have read that a norm after their sum does not let go.
        self.reads: list[Tensor] = []

    # -- parameters ---------------------------------------------------------------------------

    def parameter(self, leaf: Param, path: str, dtype: str = "") -> Tensor:
        """The tensor of a parameter; a tied one is the tensor it is tied to."""
        name = leaf.tied_to or (f"{path}.{leaf.name}" if path else leaf.name)
        found = self.parameters.get(name)
        if found is None:
            shape = tuple(axis.size for axis in leaf.axes)
            found = Tensor(Storage(self.tape, 0, name), shape, dtype or self.weight_dtype)
            found.needs_grad = leaf.trainable and self.learns(name)
            self.parameters[name] = found
        return found

    def learns(self, name: str) -> bool:
        """Whether a parameter is trained: not beside adapters, nor in a frozen part."""
        return self.lora is None and not any(name == p or name.startswith(f"{p}.") for p in self.frozen)

    def product(self, x: Tensor, weight: Tensor, out: Dim) -> Tensor:
        """x times a matrix, without a bias."""
        weight = self.cast(weight)
        shape = x.shape
        flat = ops.reshape(self.tape, self.cast(x), (numel(shape[:-1]), shape[-1]))
        return ops.reshape(self.tape, ops.mm(self.tape, flat, weight, out), (*shape[:-1], out))

    def cast(self, x: Tensor) -> Tensor:
        """The input of a matrix product: 16-bit under autocast, which keeps its copies of weights."""
        if not self.autocast or x.dtype != "fp32":
            return x
        name = x.storage.name
        if not name or not x.needs_grad or x.node is not None:
            return ops.to(self.tape, x, "bf16")
        if name not in self.casts:
            self.casts[name] = ops.to(self.tape, x, "bf16")
        return self.casts[name]

    def linear(self, module: Module, path: str, x: Tensor) -> Tensor:
        """x times a matrix, and a bias where there is one."""
        weight, bias, out, transposed, adapts = None, None, 0, False, False
        for leaf in module.children:
            if isinstance(leaf, Param) and leaf.name == "weight":
                weight = self.parameter(leaf, path)
                adapts = self.lora is not None and self.lora.adapts(path, leaf)
                transposed = module.kind == "conv1d"
                out = leaf.axes[1 if transposed else 0].size
            elif isinstance(leaf, Param) and leaf.name.startswith("bias"):
                bias = self.parameter(leaf, path)
        assert weight is not None
        self.tape.module = path
        if self.fp8 and module.kind == "linear" and module.component not in ("head", "router"):
            return self._narrow(x, weight, bias, out)
        if adapts:
            from sizer.measures.step import low_rank

            plain = self._biased(x, weight, bias, out, transposed)
            return low_rank.adapted(self, path, x, plain, weight, bias)
        return self._biased(x, weight, bias, out, transposed)

    def _narrow(self, x: Tensor, weight: Tensor, bias: Tensor | None, out: Dim) -> Tensor:
        """A product in 8 bits, whose bias is added to its output."""
        tape, shape = self.tape, x.shape
        flat = ops.reshape(tape, x, (numel(shape[:-1]), shape[-1]))
        y = ops.reshape(tape, ops.narrow_mm(tape, flat, weight, out), (*shape[:-1], out))
        return y if bias is None else ops.add(tape, y, bias)

    def _biased(self, x: Tensor, weight: Tensor, bias: Tensor | None, out: Dim, transposed: bool) -> Tensor:
        if bias is None:
            return self.product(x, weight, out)
        tape, shape = self.tape, x.shape
        if transposed:
            # GPT-2's own module flattens before it calls, and autocast converts from the last argument.
            flat = ops.reshape(tape, x, (numel(shape[:-1]), shape[-1]))
            weight, flat, bias = self.cast(weight), self.cast(flat), self.cast(bias)
        else:
            bias, weight, x = self.cast(bias), self.cast(weight), self.cast(x)
            flat = ops.reshape(tape, x, (numel(shape[:-1]), shape[-1]))
        return ops.reshape(tape, ops.addmm(tape, bias, flat, weight, out), (*shape[:-1], out))

    def norm(self, module: Module, path: str, x: Tensor) -> Tensor:
        """A norm of the module's kind."""
        self.tape.module = path
        found = {leaf.name: self.parameter(leaf, path) for leaf in module.children if isinstance(leaf, Param)}
        return NORMS[module.kind](self.tape, x, found.get("weight"), found.get("bias"))

    # -- modules ------------------------------------------------------------------------------

    def call(self, module: Module, path: str, x: Tensor) -> Tensor:
        """Run a module on a value."""
        path = joined(path, module.name)
        if module.kind in MATRICES:
            return self.linear(module, path, x)
        if module.kind in NORMS:
            return self.norm(module, path, x)
        if module.flow in FLOWS:
            return FLOWS[module.flow](self, module, path, x)
        return self.chain(module.children, path, x)

    def chain(self, children: tuple[Module | Leaf, ...], path: str, x: Tensor) -> Tensor:
        """Run modules one after another."""
        for child in self.here(children):
            if isinstance(child, Module):
                if not (child.kind or child.flow) and any(map(is_matrix, child.children)):
                    name = joined(path, child.name)
                    raise InvalidConfig(f"what {name} keeps for the backward pass is not described yet")
                x = self.call(child, path, x)
                # A norm of a sum runs while the code still names what was added.
                _summands, self.summands = self.summands, ()
            elif isinstance(child, Op):
                self.tape.module = joined(path, child.name)
                x = modules.elementwise(self.tape, child.kind, x)
        return x

    def here(self, children: tuple[Module | Leaf, ...]) -> Iterator[Module | Leaf]:
        """The children that stand in the layer that is being run."""
        for child in children:
            if not isinstance(child, Module) or child.at is None or self.layer_has(child):
                yield child

    def layer_has(self, child: Module) -> bool:
        """Whether a part stands in the layer that is being run."""
        return self.tape.choose(lambda: self.layer in (child.at.indices or ()))  # type: ignore[union-attr]

    def shared(self) -> list[Tensor]:
        """What all layers of a stack get a gradient for, besides what passes from each to the next."""
        found = (*self.biases.values(), self.source)
        return [tensor for tensor in found if tensor is not None and tensor.needs_grad]
