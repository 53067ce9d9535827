"""Which module describes what; written by tools/architecture_index.py."""

ARCHITECTURE_MODULES: dict[str, str] = {
    "bert": "encoders.bert",
    "deepseek_v3": "moe.deepseek",
    "gpt2": "decoders.gpt2",
    "gpt_from_scratch": "decoders.gpt_from_scratch",
    "latent_decoder": "decoders.latent",
    "llama": "decoders.decoder",
    "mamba2": "recurrent.mamba2",
    "palm": "decoders.palm",
    "t5": "encoder_decoders.t5",
    "transformer": "encoder_decoders.transformer",
    "zamba2": "recurrent.zamba2",
}

HF_MODULES: dict[str, str] = {
    "llama": "decoders.decoder",
    "minicpm3": "decoders.latent",
    "mistral": "decoders.decoder",
    "youtu": "decoders.latent",
}
