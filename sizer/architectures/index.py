"""Which module describes what; written by tools/architecture_index.py."""

ARCHITECTURE_MODULES: dict[str, str] = {
    "bart": "encoder_decoders.bart",
    "bert": "encoders.bert",
    "deepseek_v3": "moe.deepseek",
    "gpt2": "decoders.gpt2",
    "gpt_from_scratch": "decoders.gpt_from_scratch",
    "llama": "decoders.decoder",
    "mamba2": "recurrent.mamba2",
    "palm": "decoders.palm",
    "t5": "encoder_decoders.t5",
    "transformer": "encoder_decoders.transformer",
    "zamba2": "recurrent.zamba2",
}

HF_MODULES: dict[str, str] = {
    "bart": "encoder_decoders.bart_types",
    "bigbird_pegasus": "encoder_decoders.bart_types",
    "blenderbot": "encoder_decoders.bart_types",
    "blenderbot-small": "encoder_decoders.bart_types",
    "fsmt": "encoder_decoders.bart_types",
    "led": "encoder_decoders.bart_types",
    "llama": "decoders.decoder",
    "longt5": "encoder_decoders.t5_types",
    "m2m_100": "encoder_decoders.bart_types",
    "marian": "encoder_decoders.bart_types",
    "mbart": "encoder_decoders.bart_types",
    "mistral": "decoders.decoder",
    "mt5": "encoder_decoders.t5_types",
    "mvp": "encoder_decoders.bart_types",
    "pegasus": "encoder_decoders.bart_types",
    "pegasus_x": "encoder_decoders.bart_types",
    "plbart": "encoder_decoders.bart_types",
    "switch_transformers": "encoder_decoders.t5_types",
    "t5": "encoder_decoders.t5_types",
    "trocr": "encoder_decoders.bart_types",
    "umt5": "encoder_decoders.t5_types",
}
