"""The network below a detector, of which a configuration says what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizer.errors import InvalidConfig, clip

if TYPE_CHECKING:
    from sizer.sources.hf_config import HFConfig


def backbone_of(hf: HFConfig, *known: str) -> HFConfig:
    """The nested configuration of a backbone of one of the known types; timm's are not described."""
    name = hf.in_file("backbone")
    if hf.in_file("backbone_config") is None and (name or hf.in_file("use_timm_backbone")):
        raise InvalidConfig(
            f"backbone = {clip(repr(name))} is one of timm's, which are not described; "
            f"give a backbone_config ({', '.join(known)}), or build the model with --with torch"
        )
    found = hf.nested("backbone_config")
    if found.model_type not in known:
        raise InvalidConfig(
            f"backbone_config: {clip(found.model_type)} is not described; it may be {' or '.join(known)}"
        )
    return found


def last_width(backbone: HFConfig) -> int:
    """Channels that the last stage of a backbone gives."""
    widths = backbone["hidden_sizes"]
    if not isinstance(widths, list | tuple) or not widths:
        raise InvalidConfig(f"hidden_sizes = {clip(repr(widths))} lists no stage of the backbone")
    found: int = widths[-1]
    return found
