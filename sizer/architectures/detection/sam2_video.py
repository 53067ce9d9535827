"""SAM 2 over a video: it attends to what it remembers of earlier frames."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sizer.architectures.decoders.decoder import rotary_buffers
from sizer.architectures.decoders.reading import whole
from sizer.architectures.detection.sam2 import Sam2Config, read_sam2, sam2
from sizer.architectures.detection.sam2_vision import listed
from sizer.architectures.detection.sam_model import ONE, steps
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children, convolution
from sizer.core.config import configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, layer_norm, linear
from sizer.core.pattern import PerLayer
from sizer.core.tree import Axis, Module, Op, Param, heads_axis
from sizer.errors import InvalidConfig

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

# Channels of a memory, which the attention takes for granted.
MEMORY = 64
MOST_STEPS = 16
# Side of the images of SAM 3.
IMAGE = 1008


@configuration
class Sam2VideoConfig(Sam2Config):
    """The sizes of a SAM 2, and of its memory.

    `d_attention`: width of what attends to memories. `d_memory`: channels of one;
    `n_memories`: how many there are. `mask_channels`: of the convolutions over a mask. `d_fuser`: width
    of what fuses mask and image. `timed`: the tokens of things know their time. `occluded`: a vector
    for a thing that is hidden.
    """

    d_attention: Dim
    d_attention_head: Dim
    n_attention_layers: Dim
    n_attention_heads: Dim
    d_ff_attention: Dim
    n_places: Dim
    d_rotary: Dim
    d_memory_encoder: Dim
    d_memory: Dim
    n_memories: Dim
    mask_channels: PerLayer
    mask_kernel: Dim
    d_mask_embed: Dim
    n_fuser_layers: Dim
    d_fuser: Dim
    d_ff_fuser: Dim
    fuser_kernel: Dim
    timed: bool = True
    occluded: bool = True
    attention_act: str = "relu"
    fuser_act: str = "gelu"

    letters = {
        **Sam2Config.letters,
        "d_attention": "D_att",
        "d_attention_head": "Dh_att",
        "n_attention_layers": "L_att",
        "n_attention_heads": "H_att",
        "d_ff_attention": "F_att",
        "n_places": "Npl",
        "d_rotary": "Dr",
        "d_memory_encoder": "D_mem",
        "d_memory": "Cmem",
        "n_memories": "Nmem",
        "mask_channels": "Cmk",
        "mask_kernel": "Kmk",
        "d_mask_embed": "Dmk",
        "n_fuser_layers": "L_fus",
        "d_fuser": "D_fus",
        "d_ff_fuser": "F_fus",
        "fuser_kernel": "K_fus",
    }
    meanings = {
        **Sam2Config.meanings,
        "d_attention": "width of what attends to memories",
        "d_attention_head": "width of one of its heads",
        "n_attention_layers": "blocks that attend to memories",
        "n_attention_heads": "heads of these blocks",
        "d_ff_attention": "hidden width of their MLP",
        "n_places": "places of an image that memories tell of",
        "d_rotary": "width that turns with a place",
        "d_memory_encoder": "width of what makes memories",
        "d_memory": "channels of a memory",
        "n_memories": "memories",
        "mask_kernel": "side of a kernel over a mask",
        "d_mask_embed": "channels of a mask that is remembered",
        "n_fuser_layers": "blocks that fuse mask and image",
        "d_fuser": "width of these blocks",
        "d_ff_fuser": "hidden width of their MLP",
        "fuser_kernel": "side of their kernels",
    }


def sam2_video(c: Sam2VideoConfig) -> Module:
    """SAM 2 (arXiv:2408.00714), with the names of `Sam2VideoModel`.

    Source: transformers `modeling_sam2_video.py`.
    """
    neck, memory, four = Axis("neck", c.d_neck), Axis("memory", c.d_memory), Axis("kernel", 4)
    times = (Axis("memories", c.n_memories), ONE, ONE, memory)
    timed = "temporal_positional_encoding_projection_layer"
    hidden = Param("occlusion_spatial_embedding_parameter", (ONE, memory), component="embedding")
    more = (
        Param("no_memory_positional_encoding", (ONE, ONE, neck), component="position"),
        Param("memory_temporal_positional_encoding", times, component="position"),
        Param("no_object_pointer", (ONE, neck), component="embedding"),
        *((hidden,) if c.occluded else ()),
        Module("memory_attention", _attention(c)),
        Module("memory_encoder", _encoder(c)),
        convolution("mask_downsample", ONE, ONE, four, four),
        steps("object_pointer_proj", neck, neck, neck, 3),
        *((linear(timed, memory, neck, bias=True, component="position"),) if c.timed else ()),
    )
    tree = sam2(c)
    return tree._replace(children=(*tree.children, *more))


def _attention(c: Sam2VideoConfig) -> Children:
    """Blocks over the image and over the memories."""
    embed, ffn, seen = Axis("embed", c.d_attention), Axis("ffn", c.d_ff_attention), Axis("memory", MEMORY)
    block = (
        layer_norm("layer_norm1", embed),
        _rope(c, "self_attn", embed, embed),
        layer_norm("layer_norm2", embed),
        _rope(c, "cross_attn_image", embed, seen),
        layer_norm("layer_norm3", embed),
        linear("linear1", ffn, embed, bias=True, component="mlp"),
        Op("act", c.attention_act, {"width": ffn.size}, component="mlp"),
        linear("linear2", embed, ffn, bias=True, component="mlp"),
    )
    places = buffer("position_ids", Axis("places", c.n_places), Axis("axes", 2), persistent=False)
    return (
        Module("layers", block, repeat=c.n_attention_layers),
        layer_norm("layer_norm", embed),
        *rotary_buffers(c.d_rotary, layout=c.layout),
        places,
    )


def _rope(c: Sam2VideoConfig, name: str, embed: Axis, source: Axis) -> Module:
    n, d_head = c.n_attention_heads, c.d_attention_head
    heads = heads_axis("heads", n, d_head)
    parts = (
        linear("q_proj", heads, embed, bias=True),
        *(linear(f"{letter}_proj", heads, source, bias=True) for letter in "kv"),
        *attention_core(n, n, d_head, cached=False),
        linear("o_proj", embed, heads, bias=True),
    )
    return Module(name, parts, component="attention")


def _encoder(c: Sam2VideoConfig) -> Children:
    """Makes a memory of an image and of a mask in it."""
    width, kernel = Axis("memory", c.d_memory_encoder), Axis("kernel", c.mask_kernel)
    channels = [ONE, *(Axis("channels", size) for size in c.mask_channels.sizes())]
    finer: list[Module] = []
    for i in range(len(c.mask_channels)):
        conv = convolution("conv", channels[i + 1], channels[i], kernel, kernel)
        finer.append(Module(f"layers.{i}", (conv, layer_norm("layer_norm", channels[i + 1]))))
    last = convolution("final_conv", Axis("embed", c.d_mask_embed), channels[-1], ONE, ONE)
    return (
        Module("mask_downsampler", (*finer, last)),
        convolution("feature_projection", width, width, ONE, ONE),
        Module("memory_fuser.layers", _fuser(c), repeat=c.n_fuser_layers),
        convolution("projection", Axis("memory", c.d_memory), width, ONE, ONE),
    )


def _fuser(c: Sam2VideoConfig) -> Children:
    embed, ffn, kernel = Axis("embed", c.d_fuser), Axis("ffn", c.d_ff_fuser), Axis("kernel", c.fuser_kernel)
    return (
        convolution("depthwise_conv", embed, ONE, kernel, kernel, component="mixer"),
        layer_norm("layer_norm", embed),
        linear("pointwise_conv1", ffn, embed, bias=True, component="mlp"),
        Op("act", c.fuser_act, {"width": ffn.size}, component="mlp"),
        linear("pointwise_conv2", embed, ffn, bias=True, component="mlp"),
        Param("scale", (embed,)),
    )


ARCHITECTURES = {"sam2_video": Architecture(Sam2VideoConfig, sam2_video)}


def _mask_channels(hf: HFConfig) -> PerLayer:
    """Each step halves the sides, or more, and has as many channels more."""
    total, stride = whole(hf, "mask_downsampler_total_stride"), whole(hf, "mask_downsampler_stride")
    n_steps = int(math.log2(total) // math.log2(stride)) if stride > 1 else 0
    if not 0 < n_steps <= MOST_STEPS:
        raise InvalidConfig(
            f"mask_downsampler_stride = {stride} reaches mask_downsampler_total_stride = {total:,} "
            f"in no 1 to {MOST_STEPS} steps"
        )
    return PerLayer(tuple(stride ** (2 * i) for i in range(1, n_steps + 1)))


def read_video(hf: HFConfig, name: str, tower: str, side: int) -> Reading:
    """A SAM 2 over a video, of that name, over that kind of tower; `side`: usual places along a side."""
    width, n = whole(hf, "memory_attention_hidden_size"), whole(hf, "memory_attention_num_attention_heads")
    inner = width // whole(hf, "memory_attention_downsample_rate")
    if inner % n or inner < n:
        raise InvalidConfig(f"memory attention {inner} wide does not part into {n} heads")
    places = listed(hf, "memory_attention_rope_feat_sizes", (side, side))
    if len(places) != 2:
        raise InvalidConfig(f"memory_attention_rope_feat_sizes lists {len(places)} sizes, which must be 2")
    memory = {
        "d_attention": width,
        "d_attention_head": inner // n,
        "n_attention_layers": hf["memory_attention_num_layers"],
        "n_attention_heads": n,
        "d_ff_attention": hf["memory_attention_feed_forward_hidden_size"],
        "n_places": places[0] * places[1],
        # Half of a head turns with the row and half with the column, two numbers at a time.
        "d_rotary": 2 * ((inner // n // 2 + 1) // 2),
        "d_memory_encoder": hf["memory_encoder_hidden_size"],
        "d_memory": hf["memory_encoder_output_channels"],
        "n_memories": hf["num_maskmem"],
        "mask_channels": _mask_channels(hf),
        "mask_kernel": hf["mask_downsampler_kernel_size"],
        "d_mask_embed": hf["mask_downsampler_embed_dim"],
        "n_fuser_layers": hf["memory_fuser_num_layers"],
        "d_fuser": hf["memory_fuser_embed_dim"],
        "d_ff_fuser": hf["memory_fuser_intermediate_dim"],
        "fuser_kernel": hf["memory_fuser_kernel_size"],
        "timed": bool(hf["enable_temporal_pos_encoding_for_object_pointers"]),
        "occluded": bool(hf["enable_occlusion_spatial_embedding"]),
        "attention_act": hf["memory_attention_feed_forward_hidden_act"],
        "fuser_act": hf["memory_fuser_hidden_act"],
    }
    return Reading("sam2_video", {**read_sam2(hf, name, tower).given, **memory})


def _sam2_video(hf: HFConfig) -> Reading:
    return read_video(hf, "Sam2VideoModel", "sam2_vision_model", 64)


def _tracker(hf: HFConfig) -> Reading:
    """SAM 3's tracker is a SAM 2 over another tower, and one size of images holds for all its parts."""
    image = whole(hf, "image_size") if hf.in_file("image_size") else IMAGE
    vision = hf.nested("vision_config")
    tower = vision.nested("backbone_config", "sam3_vit_model")
    places = [image // whole(tower, "patch_size")] * 2
    seen = {**vision.values_in_file, "backbone_config": {**tower.values_in_file, "image_size": image}}
    whole_model = hf.having(memory_attention_rope_feat_sizes=places, vision_config=seen)
    return read_video(whole_model, "Sam3TrackerVideoModel", "sam3_vision_model", 72)


HF_READERS = {"sam2_video": _sam2_video, "sam3_tracker_video": _tracker}
