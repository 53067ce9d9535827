"""ImageGPT: a GPT-2 over the colours of an image's pixels, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.architectures.decoders.reading import count_of, whole
from sizer.architectures.registry import Architecture, Reading
from sizer.architectures.tower import Children
from sizer.architectures.vision.lists import activation_without_weights
from sizer.core.config import Config, check_sizes, configuration
from sizer.core.dims import Dim
from sizer.core.layers import attention_core, buffer, embedding, linear, mlp, rms_norm
from sizer.core.tree import Axis, Module, heads_axis
from sizer.errors import InvalidConfig, UnknownName

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig

ONE = Axis("one", 1)
TASKS = {
    "ImageGPTModel": "base",
    "ImageGPTForCausalImageModeling": "causal",
    "ImageGPTForImageClassification": "image_classification",
}


@configuration
class ImageGPTConfig(Config):
    """Sizes of an ImageGPT. `cross_attention`: each block attends to an encoder's output too.

    The vocabulary is that of the colours, and a token that begins each image.
    """

    d_model: Dim
    n_layers: Dim
    n_heads: Dim
    vocab_size: Dim
    n_ctx: Dim
    d_ff: Dim | None = None
    d_head: Dim | None = None
    cross_attention: bool = False
    act: str = "quick_gelu"
    task: str = "base"

    may_be_zero = Config.may_be_zero | {"n_layers"}

    def __post_init__(self) -> None:
        check_sizes(self)
        self.derive(d_ff=4 * self.d_model)
        self.derive_quotient("d_head", "d_model", "n_heads")


def imagegpt(c: ImageGPTConfig) -> Module:
    """ImageGPT (Chen et al. 2020). Source: transformers `modeling_imagegpt.py`."""
    embed, ffn = Axis("embed", c.d_model), Axis("ffn", c.d_ff)
    cross = (Module("crossattention", _attention(c, cross=True)), rms_norm("ln_cross_attn", embed))
    block = (
        rms_norm("ln_1", embed),
        Module("attn", _attention(c, cross=False), component="attention"),
        *(cross if c.cross_attention else ()),
        rms_norm("ln_2", embed),
        mlp("mlp", ffn, embed, act=c.act, names=("c_fc", "c_proj"), transposed=True),
    )
    model = (
        embedding("wte", Axis("vocab", c.vocab_size), embed),
        embedding("wpe", Axis("context", c.n_ctx), embed, component="position"),
        Module("h", block, repeat=c.n_layers),
        rms_norm("ln_f", embed),
    )
    if c.task == "base":
        return Module("", model)
    # Nothing predicts the token that begins an image.
    name, out = ("lm_head", c.vocab_size - 1) if c.task == "causal" else ("score", c.n_labels)
    head = linear(name, Axis("outputs", out), embed, component="head")
    return Module("", (Module("transformer", model), head))


def _attention(c: ImageGPTConfig, *, cross: bool) -> Children:
    embed, heads = Axis("embed", c.d_model), heads_axis("heads", c.n_heads, c.d_head)
    context = Axis("context", c.n_ctx)
    mask = buffer("bias", ONE, ONE, context, context, persistent=False)
    projections = {"q_attn": heads, "c_attn": 2 * heads} if cross else {"c_attn": 3 * heads}
    return (
        *((mask,) if c.layout == "transformers" else ()),
        *(linear(name, out, embed, bias=True, transposed=True) for name, out in projections.items()),
        *attention_core(c.n_heads, c.n_heads, c.d_head, cross=cross, traits=() if cross else ("causal",)),
        linear("c_proj", embed, heads, bias=True, transposed=True),
    )


ARCHITECTURES = {"imagegpt": Architecture(ImageGPTConfig, imagegpt)}


def _imagegpt(hf: HFConfig) -> Reading:
    if hf.cls not in TASKS:
        raise UnknownName("class", hf.cls, TASKS, hint="of an imagegpt")
    task, vocab = TASKS[hf.cls], whole(hf, "vocab_size")
    if task == "causal" and vocab == 1:
        raise InvalidConfig("vocab_size = 1 is the token that begins an image, and leaves no colour")
    if task == "causal" and hf["tie_word_embeddings"]:
        raise InvalidConfig(
            f"tie_word_embeddings: a head of {vocab - 1} colours is not the table of {vocab} tokens; "
            "set it to false, as the published files do"
        )
    given = {
        "task": task,
        "n_labels": hf.n_labels if task == "image_classification" else 2,
        "d_model": whole(hf, "hidden_size"),
        "n_layers": count_of(hf, "num_hidden_layers"),
        "n_heads": whole(hf, "num_attention_heads"),
        "vocab_size": vocab,
        "n_ctx": whole(hf, "max_position_embeddings"),
        "d_ff": None if hf["n_inner"] is None else whole(hf, "n_inner"),
        "cross_attention": bool(hf["add_cross_attention"]),
        "act": activation_without_weights(hf, "activation_function"),
    }
    return Reading("imagegpt", given)


HF_READERS = {"imagegpt": _imagegpt}
