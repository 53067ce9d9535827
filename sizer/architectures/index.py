"""Which module describes what; written by tools/architecture_index.py."""

ARCHITECTURE_MODULES: dict[str, str] = {
    "bamba": "recurrent.bamba",
    "bert": "encoders.bert",
    "deepseek_v3": "moe.deepseek",
    "gpt2": "decoders.gpt2",
    "gpt_from_scratch": "decoders.gpt_from_scratch",
    "jamba": "recurrent.jamba",
    "lfm2": "recurrent.lfm2",
    "llama": "decoders.decoder",
    "mamba": "recurrent.mamba",
    "mamba2": "recurrent.mamba2",
    "palm": "decoders.palm",
    "t5": "encoder_decoders.t5",
    "transformer": "encoder_decoders.transformer",
    "zamba2": "recurrent.zamba2",
}

HF_MODULES: dict[str, str] = {
    "bamba": "recurrent.bamba",
    "falcon_h1": "recurrent.bamba",
    "falcon_mamba": "recurrent.mamba",
    "granitemoehybrid": "recurrent.bamba",
    "jamba": "recurrent.jamba",
    "lfm2": "recurrent.lfm2",
    "lfm2_moe": "recurrent.lfm2",
    "lfm3": "recurrent.lfm2",
    "llama": "decoders.decoder",
    "mamba": "recurrent.mamba",
    "mamba2": "recurrent.mamba2",
    "mistral": "decoders.decoder",
}
