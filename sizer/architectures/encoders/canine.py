"""CANINE: no vocabulary; characters are hashed, joined to molecules, and taken apart again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sizer.architectures.encoders.bert import BertConfig, fields_of, layer, pooler, stack
from sizer.architectures.encoders.heads import with_head
from sizer.architectures.encoders.parts import id_buffers
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import convolution
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import embedding, layer_norm
from sizer.core.tree import Axis, Module, Op

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


@configuration
class CanineConfig(BertConfig):
    """Sizes of a CANINE; its `window` holds in the first layer alone.

    `n_hashes`: hash functions, each with a table of `n_buckets`. `n_joined`: characters of a molecule,
    which `n_spread` put back.
    """

    vocab_size: Dim | None = None
    n_hashes: Dim
    n_buckets: Dim
    n_joined: Dim
    n_spread: Dim
    d_shard: Dim | None = None

    letters = {
        **BertConfig.letters,
        "n_hashes": "Nh",
        "n_buckets": "Nb",
        "n_joined": "Nj",
        "n_spread": "Ns",
        "d_shard": "Dsh",
    }
    meanings = {
        **BertConfig.meanings,
        "n_hashes": "hash functions of a character",
        "n_buckets": "buckets of one of them",
        "n_joined": "characters of a molecule",
        "n_spread": "molecules that a character reads",
        "d_shard": "width that a hash function gives",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.derive_quotient("d_shard", "d_model", "n_hashes")


def canine(c: CanineConfig) -> Module:
    """CANINE (arXiv:2103.06874), with the names of `CanineModel`. Source: `modeling_canine.py`.

    The deep layers run over molecules, a stream of their own.
    """
    embed, everywhere = Axis("embed", c.d_model), replace(c, window=None)
    molecules = (
        _joining(c, "chars_to_molecules", embed, Axis("joined", c.n_joined)),
        *stack(everywhere, layer(everywhere)),
    )
    model = (
        _characters(c, embed),
        Module("initial_char_encoder.layer.0", layer(c)),
        Module("", molecules, stream="molecules"),
        _joining(c, "projection", 2 * embed, Axis("spread", c.n_spread)),
        Module("final_char_encoder.layer.0", layer(everywhere)),
        *pooler(c),
    )
    return with_head(c, model)


def _characters(c: CanineConfig, embed: Axis) -> Module:
    """A character's code is hashed several times; what the tables say stands side by side."""
    buckets, shard = Axis("buckets", c.n_buckets), Axis("shard", c.d_shard)
    hashed = embedding("HashBucketCodepointEmbedder_{}", buckets, shard)._replace(repeat=c.n_hashes)
    parts = (
        hashed,
        embedding("char_position_embeddings", buckets, embed, component="position"),
        embedding("token_type_embeddings", Axis("types", c.n_token_types), embed),
        layer_norm("LayerNorm", embed),
        *id_buffers(c, Axis("context", c.n_ctx)),
    )
    return Module("char_embeddings", parts)


def _joining(c: CanineConfig, name: str, inp: Axis, kernel: Axis) -> Module:
    embed = Axis("embed", c.d_model)
    parts = (
        convolution("conv", embed, inp, kernel, component="other"),
        Op("act", c.act, {"width": c.d_model}),
        layer_norm("LayerNorm", embed),
    )
    return Module(name, parts)


ARCHITECTURES = {"canine": Architecture(CanineConfig, canine)}


def _canine(hf: HFConfig) -> Reading:
    given = fields_of(
        hf,
        CanineConfig,
        prefix="canine",
        pooler=True,
        vocab_size=None,
        window=hf["local_transformer_stride"],
        n_hashes=hf["num_hash_functions"],
        n_buckets=hf["num_hash_buckets"],
        n_joined=hf["downsampling_rate"],
        n_spread=hf["upsampling_kernel_size"],
    )
    return Reading("canine", given)


HF_READERS = {"canine": _canine}
