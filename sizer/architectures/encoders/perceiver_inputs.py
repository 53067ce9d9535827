"""What a Perceiver does to its inputs before the latents read them."""

from __future__ import annotations

from typing import Any

from sizer.architectures.encoders.parts import Children
from sizer.core.layers import buffer, embedding, layer_norm, linear
from sizer.core.tree import Axis, Module, Param

# Widths that the classes for images fix: channels of each preprocessor, and of a patch of two frames.
CONV1X1, CONV, PATCH = 256, 64, 54


def preprocessor(c: Any) -> Children:
    """What turns inputs into rows for the latents to read."""
    if c.inputs == "text":
        embed, vocab, context = (
            Axis("embed", c.d_model),
            Axis("vocab", c.vocab_size),
            Axis("context", c.n_ctx),
        )
        parts: Children = (
            embedding("embeddings", vocab, embed),
            embedding("position_embeddings", context, embed, component="position"),
        )
    elif c.inputs == "conv1x1":
        features = Axis("features", CONV1X1)
        table = (Axis("pixels", c.n_pixels), features)
        parts = (
            convolution("convnet_1x1", features, 1, bias=True),
            Param("position_embeddings.position_embeddings", table, component="position"),
            linear("positions_projection", features, features, bias=True, component="position"),
        )
    elif c.inputs == "conv":
        features = Axis("features", CONV)
        statistics = (
            buffer("running_mean", features),
            buffer("running_var", features),
            buffer("num_batches_tracked"),
        )
        batch_norm = layer_norm("convnet.batchnorm", features)
        batch_norm = batch_norm._replace(children=(*batch_norm.children, *statistics), kind="batch_norm")
        parts = (convolution("convnet.conv", features, 7, bias=False), batch_norm)
    elif c.inputs == "patches":
        features = Axis("features", CONV)
        parts = (linear("conv_after_patches", features, Axis("patch", PATCH), bias=True),)
    else:
        return ()
    return (Module("input_preprocessor", parts, component="embedding", stream="encoder"),)


def convolution(name: str, out: Axis, side: int, *, bias: bool) -> Module:
    """A convolution over an image's three channels."""
    kernel = Axis("kernel", side)
    weight = Param("weight", (out, Axis("channels", 3), kernel, kernel), "matmul")
    return Module(name, (weight, *((Param("bias", (out,)),) if bias else ())), kind="conv")
