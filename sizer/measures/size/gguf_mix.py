"""Which type llama-quantize gives a tensor: the mixes behind names such as Q4_K_M.

The rule is that of `llama_tensor_get_type_impl` in `src/llama-quant.cpp` of llama.cpp, as of revision
007dbbf (2026), for default options: by the role of a tensor, its layer, and a few facts of the model.
A mix moves single roles up or down a type; what is not named keeps the type of the file.
"""

from __future__ import annotations

from sizer.core.record import Record

SOURCE = "llama.cpp, src/llama-quant.cpp at 007dbbf"

# Name of a mix -> the type of its tensors where no rule says otherwise (`llama_ftype_get_default_type`).
FILE_TYPES = {
    **{name: name for name in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q6_k", "tq1_0", "tq2_0", "q1_0")},
    "mxfp4_moe": "mxfp4",
    "q2_k": "q2_k",
    "q2_k_s": "q2_k",
    "q3_k_s": "q3_k",
    "q3_k_m": "q3_k",
    "q3_k_l": "q3_k",
    "q4_k_s": "q4_k",
    "q4_k_m": "q4_k",
    "q5_k_s": "q5_k",
    "q5_k_m": "q5_k",
    "iq1_s": "iq1_s",
    "iq1_m": "iq1_m",
    "iq2_xxs": "iq2_xxs",
    "iq2_xs": "iq2_xs",
    "iq2_s": "iq2_xs",
    "iq2_m": "iq2_s",
    "iq3_xxs": "iq3_xxs",
    "iq3_xs": "iq3_s",
    "iq3_s": "iq3_s",
    "iq3_m": "iq3_s",
    "iq4_nl": "iq4_nl",
    "iq4_xs": "iq4_xs",
}
# Names that llama-quantize takes for another.
ALIASES = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}

# A tensor whose rows are no whole blocks of its type gets another; of blocks of 32, or 16 bits at last.
FALLBACKS = {
    **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"), "iq4_nl"),
    **dict.fromkeys(("q2_k", "q3_k", "tq1_0", "tq2_0"), "q4_0"),
    "q4_k": "q5_0",
    "q5_k": "q5_1",
    "q6_k": "q8_0",
}

# What marks the role of a tensor in its name; the first that is found decides.
_ROLES = (
    ("attn_qkv.weight", "qkv"),
    ("attn_kv_b.weight", "kv_b"),
    ("attn_v.weight", "v"),
    ("attn_k.weight", "k"),
    ("attn_q.weight", "q"),
    ("attn_output.weight", "attn_output"),
    ("ffn_up", "up"),
    ("ffn_gate", "gate"),
    ("ffn_down", "down"),
)
_VALUES = ("v", "qkv", "kv_b")
_LOW = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m")
# Mixes that give the output of attention more bits where there are eight experts.
_EIGHT_EXPERTS = (
    *("q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m"),
    *("iq3_xs", "iq3_xxs", "iq3_s", "iq3_m", "iq4_nl", "iq4_xs"),
)


class Facts(Record):
    """What the rule asks of a model."""

    __slots__ = ("imatrix", "is_70b", "is_falcon", "layers", "n_experts", "n_gqa", "tied", "values")

    def __init__(
        self,
        layers: int,
        n_experts: int = 0,
        n_gqa: int = 1,
        tied: bool = False,
        is_falcon: bool = False,
        is_70b: bool = False,
        imatrix: bool = False,
        values: int = 0,
    ) -> None:
        self.layers = layers
        self.n_experts = n_experts
        self.n_gqa = n_gqa
        # No head of its own: the embedding takes its place in the rule.
        self.tied = tied
        self.is_falcon = is_falcon
        self.is_70b = is_70b
        self.imatrix = imatrix
        # Tensors of values, fused ones too.
        self.values = values


def role(name: str) -> str:
    """The role of a tensor, by its name.

    >>> role("blk.3.ffn_down_exps.weight"), role("token_embd.weight"), role("blk.0.attn_kv_a_mqa.weight")
    ('down', 'embedding', '')
    """
    if name == "output.weight":
        return "output"
    if name in ("token_embd.weight", "per_layer_token_embd.weight"):
        return "embedding"
    return next((found for mark, found in _ROLES if mark in name), "")


class Mix:
    """A mix on its way through the tensors of a model, in the order of llama.cpp: it counts as it goes."""

    def __init__(self, name: str, facts: Facts) -> None:
        self.name = name
        self.default = FILE_TYPES[name]
        self.facts = facts
        self._seen = {"v": 0, "down": 0, "gate": 0, "up": 0}

    def type_of(self, name: str, layer: int, inputs: int, stacked: bool, block: int) -> str:
        """The type of a tensor, before its rows are compared with the blocks of it."""
        kind = role(name)
        if kind == "output" or (kind == "embedding" and self.facts.tied):
            return self._output(inputs % block == 0)
        if self.name == "mxfp4_moe":
            return "mxfp4" if stacked else "q8_0"
        if kind == "embedding":
            return self._embedding()
        if self.name in _LOW:
            return self._low(kind)
        if kind in _VALUES:
            return self._values()
        if kind in ("k", "q"):
            return self._query_or_key(kind)
        if kind == "down":
            return self._down(self._layer("down", layer))
        if kind == "attn_output":
            return self._attn_output()
        if kind in ("gate", "up"):
            at, n = self._layer(kind, layer), self.facts.layers
            middle = n // 8 <= at < 7 * n // 8
            return "iq3_xxs" if self.name == "iq3_xs" and middle else self.default
        return self.default

    def _layer(self, kind: str, layer: int) -> int:
        """The layer of a tensor: of a dense model counted, of one with experts read from the name."""
        at = self._seen[kind]
        self._seen[kind] += 1
        return layer if self.facts.n_experts > 1 else at

    def _more_bits(self, at: int, n: int) -> bool:
        return at < n // 8 or at >= 7 * n // 8 or (at - n // 8) % 3 == 2

    def _output(self, fits: bool) -> str:
        if self.name == "mxfp4_moe" or self.facts.is_falcon or not fits:
            return "q8_0"
        if self.name in (*_LOW, "iq3_xxs"):
            return "q5_k"
        return self.default if self.default == "q8_0" else "q6_k"

    def _embedding(self) -> str:
        if self.name in ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs"):
            return "q2_k"
        if self.name in ("iq2_s", "iq2_m", "iq3_xxs"):
            return "iq3_s"
        return "q4_k" if self.name in ("tq1_0", "tq2_0") else self.default

    def _low(self, kind: str) -> str:
        """Mixes of two bits and less."""
        facts, better = self.facts, "iq3_s" if self.name in ("iq2_s", "iq2_m") else "q2_k"
        if kind in _VALUES:
            return "q4_k" if facts.n_gqa >= 4 or facts.n_experts >= 4 else better
        if kind == "k" and facts.n_experts == 8:
            return "q4_k"
        if kind == "down":
            at = self._seen["down"]
            self._seen["down"] += 1
            return better if at < facts.layers // 8 else self.default
        if kind == "attn_output":
            if facts.n_experts == 8:
                return "q5_k"
            changed = {"iq1_s": "iq2_xxs", "iq1_m": "iq2_xxs", "iq2_s": "iq3_s", "iq2_m": "iq3_s"}
            return changed.get(self.name, self.default)
        return self.default

    def _values(self) -> str:
        name, facts, at = self.name, self.facts, self._seen["v"]
        self._seen["v"] += 1
        wide = facts.n_gqa >= 4
        found = self.default
        if name == "q2_k":
            found = "q4_k" if wide else "q3_k"
        elif name == "iq3_xxs":
            found = "q4_k" if wide else "iq3_xxs" if facts.imatrix else "iq3_s"
        elif name == "iq3_m" or (wide and name in ("q2_k_s", "iq3_xs", "iq3_s")):
            found = "q4_k"
        elif name == "q3_k_m":
            found = "q5_k" if at < 2 else "q4_k"
        elif name == "q3_k_l" or (wide and name in ("iq4_nl", "iq4_xs")) or (name == "q4_k_s" and at < 4):
            found = "q5_k"
        elif name in ("q4_k_m", "q5_k_m") and self._more_bits(at, facts.values):
            found = "q6_k"
        if facts.is_70b and found in ("q3_k", "q4_k"):
            found = "q5_k"
        return "q8_0" if facts.n_experts == 8 else found

    def _query_or_key(self, kind: str) -> str:
        if kind == "k" and self.facts.n_experts == 8:
            return "q8_0"
        return {"iq3_xs": "iq3_xxs", "iq3_xxs": "iq2_s"}.get(self.name, self.default)

    def _down(self, at: int) -> str:
        name, facts, n = self.name, self.facts, self.facts.layers
        first, more = at < n // 8, self._more_bits(at, n)
        if name == "q2_k":
            return "q3_k"
        if name == "q2_k_s":
            return "q4_k" if first else self.default
        if name == "iq3_xxs" and not facts.imatrix:
            return "q4_k" if first else "q3_k"
        if name == "q3_k_m":
            if at < n // 16:
                return "q5_k"
            return "q4_k" if not facts.is_falcon or more else "q3_k"
        if name == "iq3_m" and (first or (facts.n_experts == 8 and more)):
            return "q4_k"
        if name == "q3_k_l":
            return "q4_k" if facts.is_falcon else "q5_k"
        if name == "q4_k_m" and facts.is_falcon:
            return "q6_k" if at < n // 16 else "q5_k" if more else "q4_k"
        if name in ("q4_k_m", "q5_k_m"):
            return "q6_k" if more else self.default
        if first and name in ("iq4_nl", "iq4_xs") and not facts.imatrix:
            return "q5_k"
        if first and name == "q4_k_s" and not facts.is_falcon:
            return "q5_k"
        if first and facts.imatrix and name in ("q4_0", "q5_0"):
            # An importance matrix makes the first ones go wrong without an offset.
            return "q4_1" if name == "q4_0" else "q5_1"
        return self.default

    def _attn_output(self) -> str:
        name, facts = self.name, self.facts
        if facts.is_falcon:
            return "q4_k" if name == "q3_k_l" else self.default
        if facts.n_experts == 8:
            return "q5_k" if name in _EIGHT_EXPERTS else self.default
        changed = {"q2_k": "q3_k", "iq3_xxs": "iq3_s", "q3_k_m": "q4_k", "q3_k_l": "q5_k", "iq3_m": "q4_k"}
        return changed.get(name, self.default)
