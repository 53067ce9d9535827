"""One model of every architecture that a configuration file can name: the list that properties run over."""

from __future__ import annotations

from functools import cache

import sizer
from sizer.model import Model

# Architectures whose name is that of a model type.
_SAME = """
albert apertus arctic aria bamba bart bert biogpt bitnet bloom blt chatglm codegen convbert cpmant
ctrl dbrx deberta deepseek_v3 deepseek_v4 diffllama distilbert doge dory emu3_vqgan eurobert exaone
falcon fnet funnel fuyu gemma3 gemma4_assistant gemma4_audio gemma4_unified gemma4_vision git
got_ocr2 gpt2 gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gptj granite_speech
granite_speech_encoder gte hrm_text hy_v4 ibert idefics2 jamba jetmoe jina_bert kimi_k25
kimi_k25_own kimi_linear laguna lfm2 llama llava llava_next longcat_flash longformer luke mamba
mamba2 mimo mimo_v2_flash minimax minimax_m3_vl mistral3 mobilebert modernbert modernvbert molmo
moshi mpnet mpt musicflamingo musicgen nemo_speechlm nemotron_h neomme nomic_bert_own olmo_hybrid
omniasr omniasr_audio opt perceiver phi4_multimodal pixtral prophetnet qwen3_next recurrent_gemma
reformer rembert resnet roc_bert roformer rwkv santacoder sarvam_moe squeezebert t5 t5gemma tapas
ultravbert vibevoice_asr video_llava vit voxtral_realtime voxtral_realtime_text wav2vec2 whisper
xglm xlm xlnet xlstm xmod yuan zamba zamba2 zaya
"""
# An architecture, and a model type whose defaults build one.
FAMILIES = {
    **{name: name for name in _SAME.split()},
    "audio_text": "audioflamingo3",
    "blip_2": "blip-2",
    "blip_2_vision": "blip_2_vision_model",
    "clip_text": "clip_text_model",
    "clip_vision": "clip_vision_model",
    "contrastive": "clip",
    "dots3": "dots3_note",
    "dots3_audio": "dots3_note_audio_encoder",
    "dots3_vision": "dots3_note_vision_encoder",
    "efficient_bert": "mra",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_multimodal": "gemma4",
    "glm_vision": "glm4v_moe_vision",
    "grok": "grok-1",
    "hyperclovax_vision": "hyperclovax_vision_v2",
    "inkling": "inkling_text",
    "inkling2": "inkling2_loop_text",
    "latent_decoder": "minicpm3",
    "llama4_vision": "llama4_vision_model",
    "minicpm_v": "minicpm_ocr",
    "minicpm_vision": "minicpm_ocr_vision",
    "minimax_m3_text": "minimax_m3_vl_text",
    "minimax_m3_vision": "minimax_m3_vl_vision",
    "mixformer": "mixformer-sequential",
    "mllama_text": "mllama",
    "mllama_vision": "mllama_vision_model",
    "moe": "afmoe",
    "moon_vit": "kimi_k25_vision",
    "nemo_encoder": "nemotron3_5_transcribe_asr_audio",
    "nllb_moe": "nllb-moe",
    "omni_audio_encoder": "qwen2_5_omni_audio_encoder",
    "openai_gpt": "openai-gpt",
    "paddleocr": "paddleocr_vl",
    "per_layer": "deci",
    "phi4_audio": "phi4_multimodal_audio",
    "phi_msft": "phi-msft",
    "qformer": "blip_2_qformer",
    "qwen_audio_encoder": "qwen3_asr_encoder",
    "qwen_vision": "cohere_compass_vision",
    "qwen_vl": "cohere_compass",
    "sam_vision": "got_ocr2_vision",
    "seamless": "seamless_m4t",
    "vibevoice_tokenizer": "vibevoice_acoustic_tokenizer_encoder",
    "whisper_encoder": "audioflamingo3_encoder",
}
# Parts that stand inside others alone, architectures of presets, and types whose own defaults
# describe no model.
_WITHOUT_A_TYPE = """
dots3_note emu3 encoder_decoder esm gpt_from_scratch hifi_gan llama4 minicpm_moe mllama palm
qwen4_exp seamless_speech seamless_units tool_decoder torchvision_resnet transformer
"""
WITHOUT_A_TYPE = frozenset(_WITHOUT_A_TYPE.split())


@cache
def family(name: str) -> Model:
    """The model of an architecture, loaded once."""
    return sizer.load({"model_type": FAMILIES[name]})
