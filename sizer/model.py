"""A model: an architecture with its configuration, and every question one can ask of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

from sizer.architectures.registry import Architecture, architecture
from sizer.core.config import Config, symbolic
from sizer.core.dims import is_array
from sizer.core.tree import Module
from sizer.core.walk import Row, walk
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.measures.activations import Ledger
    from sizer.measures.count import Count
    from sizer.measures.flops import Flops
    from sizer.measures.formula import Formula
    from sizer.measures.inference import Inference
    from sizer.measures.kv_cache import KVCache
    from sizer.measures.memory import Training
    from sizer.measures.sharding import Shards
    from sizer.measures.size.result import Size
    from sizer.measures.tensors import Tensor


class Model:
    """An architecture with sizes: `sizer.load` makes one.

    `given` holds the fields as they were given; the configuration derives the others from them.
    """

    def __init__(
        self,
        name: str,
        architecture_name: str,
        given: Mapping[str, Any],
        *,
        assumptions: Iterable[str] = (),
        sources: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.architecture = architecture_name
        self.given = dict(given)
        self.assumptions = list(assumptions)
        self.sources = list(sources)
        # The configuration file a model was read from, and the class it names, where there is one.
        self.hf_config: dict[str, Any] | None = None
        self.hf_class = ""
        # Keys of that file that nobody knows, listed with `-v`.
        self.unknown_keys: list[str] = []
        self._architecture: Architecture = architecture(architecture_name)
        self.config: Config = self._configure(self.given)
        self._rows: dict[str, list[Row]] = {}

    def __repr__(self) -> str:
        return f"<sizer.Model {self.name} ({self.architecture})>"

    def _repr_html_(self) -> str:
        from sizer.core.html import lines

        told = (f"{self.name}  ({self.architecture})", f"params = {self.formula().form.text()}")
        return lines(told) + self.count()._repr_html_()

    def _configure(self, values: Mapping[str, Any]) -> Config:
        try:
            return self._architecture.config(**values)
        except InvalidConfig as error:
            raise type(error)(f"{self.name}: {error}") from None

    def tree(self, layout: str = "checkpoint") -> Module:
        """The tree of modules, with names and shapes of that layout."""
        if layout not in ("checkpoint", "transformers"):
            raise InvalidConfig(
                f"no layout named {layout!r}; the layouts are 'checkpoint' and 'transformers'"
            )
        if layout == self.config.layout:
            return self._architecture.build(self.config)
        return self._architecture.build(self._configure({**self.given, "layout": layout}))

    def rows(self, layout: str = "checkpoint") -> list[Row]:
        """The leaves of the tree, repeats kept as counts."""
        if layout not in self._rows:
            self._rows[layout] = walk(self.tree(layout))
        return self._rows[layout]

    @cached_property
    def symbolic(self) -> tuple[Config, dict[str, Any]]:
        """The configuration with letters for sizes, and the number each letter stands for."""
        symbols, values = symbolic(self._architecture.config, self.given)
        return self._configure(symbols), values

    def symbolic_tree(self, layout: str = "checkpoint") -> Module:
        """The same tree over letters."""
        config, _ = self.symbolic
        if layout != config.layout:
            symbols, _ = symbolic(self._architecture.config, {**self.given, "layout": layout})
            config = self._configure(symbols)
        return self._architecture.build(config)

    def with_values(self, **values: Any) -> Model:
        """The same model with some fields changed; sizes that follow from them change too.

        >>> import sizer
        >>> sizer.load("gpt2-small").with_values(n_layers=24).count().total
        209494272
        """
        from sizer.architectures.changes import changed

        return self._with_given(changed(self.given, self.config, values, self.name))

    def _with_given(self, given: Mapping[str, Any]) -> Model:
        return Model(self.name, self.architecture, given, assumptions=self.assumptions, sources=self.sources)

    @cached_property
    def mtp_params(self) -> int:
        """Parameters of layers for multi-token prediction that the files have and the count has not."""
        if getattr(self.config, "mtp_layers", None) is None or self.config.count_mtp:  # type: ignore[attr-defined]
            return 0
        counted: int = self.with_values(count_mtp=True).count().total
        return counted - int(self.count().total)

    # -- measures -----------------------------------------------------------------------------

    def count(self) -> Count:
        """Parameters: in all, active, embedding or not, by component.

        >>> import sizer
        >>> sizer.load("gpt2-small").count().total
        124439808
        """
        from sizer.measures.count import count

        found = count(self.rows())
        if any(is_array(value) for value in self.given.values()) and self._wraps():
            # Python's own integers, in arrays: slower, and exact whatever the size.
            return self._with_python_integers().count()
        return found

    def _wraps(self) -> bool:
        """Whether a number of a sweep is beyond 64 bits, where numpy's integers silently wrap."""
        from sizer.measures.count import beyond_int64

        return beyond_int64(walk(self.symbolic_tree()), self.symbolic[1])

    def _with_python_integers(self) -> Model:
        widened = {k: v.astype(object) if is_array(v) else v for k, v in self.given.items()}
        return self._with_given(widened)

    def tensors(self, layout: str = "checkpoint") -> list[Tensor]:
        """Every tensor by name, with its shape, component, kind and tie."""
        from sizer.measures.tensors import tensors

        return tensors(self.rows(layout))

    def formula(self) -> Formula:
        """The closed form of the count, as sympy expressions.

        >>> import sizer
        >>> sizer.load("gpt2-small").formula().block
        12*D**2 + 13*D
        """
        from sizer.measures.formula import formula

        return formula(self)

    def flops(
        self,
        batch_size: int = 1,
        seq_len: int = 1024,
        attention: str = "eager",
        checkpointing: bool | str = False,
        **options: Any,
    ) -> Flops:
        """FLOPs of one step over `batch_size` sequences of `seq_len` tokens; a multiply-add is 2.

        The options are those of `sizer.measures.flops.flops`: lengths of an encoder and a decoder,
        tokens in the cache, chunks, decoding steps, logits to keep, causal counting.

        >>> import sizer
        >>> sizer.load("gpt2-small").flops(seq_len=1024).forward
        291648307200
        """
        from sizer.measures.context import check_kernel
        from sizer.measures.flops import flops, kernel_of

        check_kernel(self, kernel_of(attention))
        model = self
        if any(is_array(value) for value in self.given.values()):
            # FLOPs pass 64 bits long before parameters do.
            model = self._with_python_integers()
        return flops(
            model.rows(),
            batch_size=batch_size,
            seq_len=seq_len,
            attention=attention,
            checkpointing=checkpointing,
            **options,
        )

    def kv_cache(
        self,
        batch_size: int = 1,
        seq_len: int = 1024,
        dtype: str = "bf16",
        policy: str = "architecture",
        **options: Any,
    ) -> KVCache:
        """What decoding keeps for `batch_size` sequences of `seq_len` tokens, in bytes.

        The options are those of `sizer.measures.kv_cache.kv_cache`: types of keys, values and states,
        the length that is reserved, the numbers of an engine, ranks that share the heads.

        >>> import sizer
        >>> sizer.load("llama-3-8b").kv_cache(seq_len=8192).bytes
        1073741824
        """
        from sizer.measures.kv_cache import kv_cache

        return kv_cache(
            self.rows(), batch_size=batch_size, seq_len=seq_len, dtype=dtype, policy=policy, **options
        )

    def shards(self, framework: str = "megatron", **degrees: Any) -> Shards:
        """Parameters of every rank under `tp`, `pp`, `dp`, `ep` and `zero`, as a framework spreads them.

        >>> import sizer
        >>> sizer.load("llama-3-8b").shards("megatron", tp=8).heaviest.params
        1004802048
        """
        from sizer.measures.sharding import shards

        groups = getattr(self.config, "n_groups", None)
        return shards(self.rows("transformers"), framework=framework, n_groups=groups, **degrees)

    def size(self, quant: str = "none", **options: Any) -> Size:
        """The bytes of a checkpoint in a format, tensor by tensor.

        The options are those of `sizer.measures.size.size.size`: container, group_size, dtype, skip,
        quantize, max_shard_size, metadata_bytes, pure, imatrix.

        >>> import sizer
        >>> sizer.load("llama-3-8b").size(quant="nf4").bytes
        6027896232
        """
        from sizer.measures.size.size import size

        return size(self, quant=quant, **options)

    def activations(self, **options: Any) -> Ledger:
        """What a forward pass keeps for the backward pass, tensor by tensor.

        The options are those of `sizer.measures.step.simulate.settings`: batch_size, seq_len,
        precision, attention, checkpointing, lora, frozen, experts.

        >>> import sizer
        >>> sizer.load("gpt2-small").activations(seq_len=1024, precision="fp32", attention="eager").total
        1873317900
        """
        from sizer.measures.activations import activations
        from sizer.measures.step.simulate import settings

        return activations(self, settings(**options))

    @overload
    def memory(self, mode: Literal["train"] = "train", **options: Any) -> Training: ...
    @overload
    def memory(self, mode: Literal["infer"], **options: Any) -> Inference: ...
    def memory(self, mode: str = "train", **options: Any) -> Training | Inference:
        """Bytes of a training step, with its peak, or of inference.

        `mode="train"`: batch_size, seq_len, precision ("fp32", "bf16", "autocast"), optimizer,
        attention, checkpointing, foreach, master_weights, lora, frozen, quant (of frozen weights).
        `mode="infer"`: batch_size, seq_len, dtype, kv_dtype, attention, quant.

        >>> import sizer
        >>> sizer.load("gpt2-small").memory(batch_size=8, seq_len=1024, precision="autocast").moment
        'backward of the loss'
        """
        from sizer.errors import UnknownName

        if mode == "infer":
            from sizer.measures.inference import inference

            return inference(self, **options)
        if mode != "train":
            raise UnknownName("mode", mode, ("train", "infer"), hint="train or infer")
        from sizer.measures.memory import training
        from sizer.measures.step.simulate import settings

        rest = {
            k: options.pop(k) for k in ("optimizer", "foreach", "master_weights", "quant") if k in options
        }
        return training(self, settings(**options), **rest)
