"""Command lines that contradict themselves or ask for what there is not: one line, exit 2."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]

LINES = [
    ("solve gpt2-small --params 1B --for n_layers --aspect 64", "--aspect 64 is no range; write 64:160"),
    (
        "solve gpt2-small --params 1B --for d_model --set n_layers=3 --where n_layers=1:9",
        "fixed with --set and",
    ),
    ("solve mamba-130m --params 1B --for n_layers --d-head 64", "--d-head: mamba has no heads of a width"),
    (
        "solve gpt2-small --params 1B --for n_layers --kv-ratio 1/0",
        "is no positive number; write 4, 2.5 or 8/3",
    ),
    ("solve gpt2-small --params 1B --for n_layers --multiple d_model=0", "is no whole number from 1 to 10^9"),
    ("solve gpt2-small --params 1B --for n_layers --multiple d_model=7", "d_model = 768 is no multiple of 7"),
    ("solve gpt2-small --params 1B --for d_ff --where d_ff=1:1000000000", "take larger steps"),
    ("solve gpt2-small --params 1B --for d_model --set L=3 --set n_layers=4", "is set twice"),
    (f"solve gpt2-small --params {'9' * 600} --for n_layers", "params"),
    ("solve llama-3-8b --params 1B --for d_head --d-head 64", "--d-head fixes the width of a head"),
    ("solve mamba-130m --params 1B --for n_layers --ff-ratio 4", "mamba has no d_ff"),
    ("solve resnet-50 --params 1B --for n_layers", "no field 'n_layers'; did you mean"),
    ("sweep gpt2-small d_model=9e20", "d_model"),
    ("sweep gpt2-small d_model=1000000000000000000", "the largest size that is accepted"),
    ("sweep gpt2-small d_model=1:2000001:1,1", "more than"),
    ("sweep --models ./nowhere n_layers=1", "there is no file or folder './nowhere'"),
    ("sweep --models gpt2-smal n_layers=1", "no preset named 'gpt2-smal'"),
    ("sweep --models gpt2-small,llama-7b n_layers=1:9 --max-points 2", "more than 2"),
    ("sweep gpt2-small n_layers=1 --scheduler local:0", "write local:2 for two processes"),
    ("sweep gpt2-small n_layers=1 --what parms", "no measure named 'parms'"),
    ("sweep gpt2-small n_layers=1 --what ''", "no measure named ''"),
    (
        "fit llama-3-8b --on h100 --mode train --gpus 2 --cp 2 --attention eager",
        "--cp 2 needs --attention sdpa",
    ),
    (
        "fit llama-3-8b --on h100 --mode train --gpus 1 --batch-size 5 --micro-batch 2",
        "--micro-batch 2 does not divide the 5 sequences of a rank",
    ),
    ("train llama-3-8b --tokens 1T --on h100 --gpus 8 --mfu 0.4 --achieved 1e12", "say the same; give one"),
    (
        "train llama-3-8b --gpu-hours 1e5 --peak 1e400 --mfu 0.4 --on h100 --gpus 64",
        "--peak 1e400 is over 10^50",
    ),
    ("train llama-3-8b --tokens 1T --achieved 1e400 --on h100 --gpus 64", "--achieved 1e400 is over 10^50"),
    ("roofline llama-3-8b --on h100 --inter-token 0", "--inter-token 0.0 is not a time above zero"),
    ("scaling --flops 1e21 --params 1B", "one"),
    ("scaling --params 1B --tokens 0", "tokens"),
    ("count gpt2-small --preset gpt2-xl", "give one"),
    ("count gpt2-small --set n_layers=3 --set n_layers=4", "n_layers is set twice"),
    ("count --preset gpt2-small --with torch", "--with torch needs the path of a config.json"),
    ("flops gpt2-small --rule 7n", "no rule named '7n'"),
    ("memory gpt2-small --mode serve", "no mode named 'serve'"),
    ("check --format word", "no format named 'word'"),
    ("scaling --model llama-3-8b --tokens 1e35", "is not between 1 and 1e30"),
    ("scaling --params 1e45 --tokens 1T", "is not between 1 and 1e40"),
    ("fit resnet-50 --on h100 --mode train", "activations of a training step are not known"),
    ("fit llama-3-8b --on h100 --gpus 3 --dp 3 --ep 3", "no experts to share"),
    ("flops gpt2-small --stream encoder=²", "--stream encoder=² is not NAME=TOKENS"),
    (f"flops gpt2-small --stream {'a' * 100_000}", "is not NAME=TOKENS"),
    ("flops gpt2-small --lora r=²,target=c_attn", "r = '²' is not a positive whole number"),
    ("scaling --model gpt2-small --tokens 1e400", "--tokens 1e400 is over 10^50"),
    ("scaling --flops 1e45", "is not between 1 and 1e40"),
    ("flops gpt2-small --lora r=8,target=c_attn --checkpointing full", "not counted together"),
    ("kv-cache gpt2-small --budget 0", "budget"),
    ("memory gpt2-small --checkpointing half", "'half'"),
    ("memory gpt2-small --along width", "width"),
    ("memory gpt2-small --estimate deepspeed", "no published formula named 'deepspeed'"),
    ("shard gpt2-small --framework vllm --ep 3 --tp 2", "--ep 3: "),
    ("tensors gpt2-small --layout torch", "torch"),
    ("compare gpt2-small", "compare takes 2"),
    ("reconcile gpt2-small apples", "apples"),
    ("hardware show h1000", "h1000"),
    ("presets show gpt2-smal --hf", "did you mean 'gpt2-small'"),
    ("formula gpt2-small --of kv-cache --policy vllm", "has no closed form"),
    ("formula gpt2-small --diff Q", "Q"),
    ("verify gpt2-small --what shapes", "no measure named 'shapes'"),
    ("verify --all --what peak", "--all verifies params"),
    ("verify gpt2-small --only gpt2", "--all names no model"),
    ("verify gpt2-small --what peak --checkpoint x", "do not go with --what peak"),
    ("verify --all --only nothing", "no set named 'nothing'"),
    ("verify gpt2-small --save report.txt", "a file ending in .json, .md or .xml"),
    ("formula gpt2-small --of flops --keep D", "--keep and --diff belong to --of params"),
    ("solve gpt2-small --params 1B --for n_layers --where d_model", "is not SIZE=VALUES"),
    ("solve gpt2-small --params 1B --for n_layers --set d_model=64 --set d_model=96", "is set twice"),
    ("shard resnet-50 --framework fsdp2 --dp 2 --traffic", "has no width d_model"),
    ("sweep gpt2-small n_layers=1 --max-points 0", "allows no point"),
    ("sweep gpt2-small d_model=12:120000000:12 --format github", "use --csv, --json or --output FILE"),
    ("plan llama-3-8b --on h100 --gpus 0", "gpus"),
    ("plan llama-3-8b --on h1000 --gpus 8", "h1000"),
]


@pytest.mark.parametrize(("line", "words"), LINES, ids=[line[:60] for line, _ in LINES])
def test_what_is_refused_is_said_in_one_line(sizer_cli: Run, line: str, words: str) -> None:
    code, out, err = sizer_cli(*shlex.split(line))

    assert (code, out) == (2, ""), err or out
    assert words in err
    assert err.startswith("sizer: ")
    assert err.count("\n") == 1
