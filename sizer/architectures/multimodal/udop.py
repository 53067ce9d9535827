"""UDOP: a T5 that reads a page, its words together with the patches of the image they stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizer.architectures.encoder_decoders.t5 import T5Config, t5
from sizer.architectures.encoder_decoders.t5_types import mlp_fields
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import convolution
from sizer.architectures.vision.clip import side
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import FIRST, after_first, embedding
from sizer.core.tree import Axis, Module, Param
from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

BLOCK_POSITIONS = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"


@configuration
class UdopConfig(T5Config):
    """A T5, and what it knows of a page.

    `n_coordinates`: places on a page, across and down. `n_distances`: kinds of distance (in the text,
    across, down), each in `n_page_buckets` buckets.
    """

    n_coordinates: Dim
    patch_height: Dim
    patch_width: Dim
    n_channels: Dim
    n_distances: Dim
    n_page_buckets: Dim

    letters = {
        **T5Config.letters,
        "n_coordinates": "Nxy",
        "patch_height": "ph",
        "patch_width": "pw",
        "n_channels": "Nc",
        "n_distances": "Nd",
        "n_page_buckets": "Npb",
    }
    meanings = {
        **T5Config.meanings,
        "n_coordinates": "places on a page, across and down",
        "patch_height": "height of a patch",
        "patch_width": "width of a patch",
        "n_channels": "colour channels",
        "n_distances": "kinds of distance on a page",
        "n_page_buckets": "buckets of such a distance",
    }


def udop(c: UdopConfig) -> Module:
    """UDOP (arXiv:2212.02623), with the names of `UdopForConditionalGeneration`.

    Source: transformers `modeling_udop.py`.
    """
    shared, *rest = t5(c).children
    stacks = (
        _on_a_page(c, child) if isinstance(child, Module) and child.name in ("encoder", "decoder") else child
        for child in rest
    )
    return Module("", (shared, _patches(c, "patch_embed.proj"), *stacks))


def _patches(c: UdopConfig, name: str, tied_to: str = "") -> Module:
    kernel = Axis("patch", c.patch_height), Axis("patch", c.patch_width)
    made = convolution(name, Axis("embed", c.d_model), Axis("channels", c.n_channels), *kernel)
    if not tied_to:
        return made
    children = (p._replace(tied_to=f"{tied_to}.{p.name}") for p in made.children if isinstance(p, Param))
    return made._replace(children=tuple(children))


def _on_a_page(c: UdopConfig, stack: Module) -> Module:
    """One of T5's stacks, with the patches, the places on the page and the distances on it."""
    embed, places = Axis("embed", c.d_model), Axis("coordinates", c.n_coordinates)
    tokens, block, norm = stack.children
    assert isinstance(block, Module)
    tables = tuple(
        embedding(f"{axis}_position_embeddings", places, embed, component="position") for axis in "xy"
    )
    cells = (Module("cell_2d_embedding", tables),) if stack.name == "encoder" else ()
    # The decoder reads no patches, and its matrix for them is its own.
    patches = _patches(c, "embed_patches.proj", "patch_embed.proj" if cells else "")
    # What a training step keeps of these distances is not described.
    children = (tokens, patches, block._replace(flow=""), norm, *cells, _distances(c))
    return stack._replace(children=children)


def _distances(c: UdopConfig) -> Module:
    """A table for each kind of distance; below a head, the first is that of the encoder's first block."""
    heads = Axis("heads", c.n_heads)
    name, rows = "relative_attention_bias", Axis("buckets", c.n_page_buckets)
    first = embedding(name, rows, heads, component="position")
    if c.task != "base":
        rows_of_block = Axis("buckets", c.n_buckets)
        first = embedding(name, rows_of_block, heads, component="position", tied_to=BLOCK_POSITIONS)
    rest = embedding(name, rows, heads, component="position")._replace(at=after_first(c.n_distances))
    return Module("relative_bias.biases", (first._replace(at=FIRST), rest), repeat=c.n_distances)


ARCHITECTURES = {"udop": Architecture(UdopConfig, udop)}


def _distance_rows(hf: HFConfig) -> list[int]:
    """The rows of each table of distances."""
    kinds = hf["relative_bias_args"]
    if kinds is None:
        return [32, 32, 32]
    if not isinstance(kinds, list) or not kinds or not all(isinstance(kind, dict) for kind in kinds):
        raise InvalidConfig(f"relative_bias_args = {clip(repr(kinds))} is not a list of kinds of distance")
    rows = [
        kind.get("relative_attention_num_buckets", 32)
        + (2 if kind.get("prefix_bucket") and not kind.get("expand") else 0)
        for kind in kinds
    ]
    if len(set(rows)) > 1:
        raise InvalidConfig(f"relative_bias_args: tables of {clip(repr(rows))} rows are not described")
    return rows


def _udop(hf: HFConfig) -> Reading:
    rows, (height, width) = _distance_rows(hf), side(hf, "patch_size")
    task = "encoder" if hf.cls.endswith("EncoderModel") else "base" if hf.cls.endswith("Model") else "seq2seq"
    given: dict[str, Any] = {
        "task": task,
        "n_labels": hf.n_labels,
        "n_decoder_layers": hf["num_decoder_layers"],
        "n_buckets": hf["relative_attention_num_buckets"],
        "n_channels": hf["num_channels"],
        "n_coordinates": hf["max_2d_position_embeddings"],
        "patch_height": height,
        "patch_width": width,
        "n_distances": len(rows),
        "n_page_buckets": rows[0],
        "tie_embeddings": True,
        "window": None,
        "encoder_kinds": None,
        "decoder_kinds": None,
        **mlp_fields(hf),
    }
    return Reading("udop", hf.fill(UdopConfig, **given))


HF_READERS = {"udop": _udop}
