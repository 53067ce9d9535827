"""Which module describes what; written by tools/architecture_index.py."""

ARCHITECTURE_MODULES: dict[str, str] = {
    "bert": "encoders.bert",
    "deepseek_v3": "moe.deepseek",
    "dots3": "moe.dots3",
    "gpt2": "decoders.gpt2",
    "gpt_from_scratch": "decoders.gpt_from_scratch",
    "hy_v4": "moe.hy_v4",
    "latent_decoder": "decoders.latent",
    "llama": "decoders.decoder",
    "longcat_flash": "moe.longcat",
    "mamba2": "recurrent.mamba2",
    "palm": "decoders.palm",
    "t5": "encoder_decoders.t5",
    "transformer": "encoder_decoders.transformer",
    "zamba2": "recurrent.zamba2",
}

HF_MODULES: dict[str, str] = {
    "axk1": "moe.deepseek",
    "axk2": "moe.deepseek",
    "deepseek_v2": "moe.deepseek",
    "deepseek_v3": "moe.deepseek",
    "deepseek_v32": "moe.deepseek",
    "dots3_note": "moe.dots3",
    "dots3_note_text": "moe.dots3",
    "glm4_moe_lite": "moe.deepseek",
    "glm_moe_dsa": "moe.deepseek",
    "hy_v4": "moe.hy_v4",
    "kimi_k2": "moe.deepseek",
    "llama": "decoders.decoder",
    "longcat_flash": "moe.longcat",
    "minicpm3": "decoders.latent",
    "mistral": "decoders.decoder",
    "sarvam_mla": "moe.deepseek",
    "youtu": "decoders.latent",
}
