"""Every tensor of a model by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


def test_more_copies_than_can_be_written_out_are_refused(
    tmp_path: Path, sizer_cli: Callable[..., tuple[int, str, str]]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "glm4_moe", "n_routed_experts": 2**40}))

    code, out, err = sizer_cli("tensors", str(file))
    counted, _, _ = sizer_cli("count", str(file))

    assert (code, out, counted) == (2, "", 0)
    assert "more than 2,000,000 are not written out, only counted" in err
