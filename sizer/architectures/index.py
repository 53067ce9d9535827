"""Which module describes what; written by tools/architecture_index.py."""

ARCHITECTURE_MODULES: dict[str, str] = {
    "bert": "encoders.bert",
    "deberta": "encoders.deberta",
    "deepseek_v3": "moe.deepseek",
    "distilbert": "encoders.distilbert",
    "eurobert": "encoders.eurobert",
    "gpt2": "decoders.gpt2",
    "gpt_from_scratch": "decoders.gpt_from_scratch",
    "gte": "encoders.gte",
    "llama": "decoders.decoder",
    "mamba2": "recurrent.mamba2",
    "modernbert": "encoders.modernbert",
    "palm": "decoders.palm",
    "t5": "encoder_decoders.t5",
    "transformer": "encoder_decoders.transformer",
    "zamba2": "recurrent.zamba2",
}

HF_MODULES: dict[str, str] = {
    "deberta": "encoders.deberta",
    "deberta-v2": "encoders.deberta",
    "distilbert": "encoders.distilbert",
    "esmc": "encoders.eurobert",
    "eurobert": "encoders.eurobert",
    "gte": "encoders.gte",
    "jina_embeddings_v3": "encoders.gte",
    "llama": "decoders.decoder",
    "mistral": "decoders.decoder",
    "modernbert": "encoders.modernbert",
    "modernbert-decoder": "decoders.modernbert_decoder",
    "nomic_bert": "encoders.gte",
    "ultrabert": "encoders.eurobert",
}
