"""One model of every architecture that a configuration file can name: the list that properties run over."""

from __future__ import annotations

from functools import cache

import sizer
from sizer.errors import NotDescribed
from sizer.model import Model

# Architectures whose name is that of a model type.
_SAME = """
albert altclip apertus arctic aria bamba bart bert biogpt bit bitnet blip bloom blt bridgetower bros
canine chameleon chatglm clvp clvp_encoder codegen convbert convnext cpmant ctrl cvt dac dbrx
deberta deepseek_v3 deepseek_v4 depth_pro detr diffllama distilbert doge dory dpr efficientloftr
efficientnet emu3_vqgan encodec eurobert exaone falcon flava fnet focalnet funnel fuyu gemma3
gemma4_assistant gemma4_audio gemma4_unified gemma4_vision git got_ocr2 gpt2 gpt_bigcode gpt_neo
gpt_neox gpt_neox_japanese gptj granite_speech granite_speech_encoder groupvit gte hgnet_v2 hiera
hrm_text hunyuan_vl hy_v4 ibert idefics idefics2 imagegpt inkling2_vision inkling_audio
inkling_vision jamba janus jetmoe jina_bert kimi_k25 kimi_k25_own kimi_linear laguna layoutlmv3
levit lfm2 lightglue lilt llama llava llava_next longcat_flash longformer luke lxmert mamba mamba2
markuplm mimi mimo mimo_v2_flash minimax minimax_m3_vl mistral3 mlcd mobilebert mobilenet_v1
mobilenet_v2 mobilevit modernbert modernvbert molmo molmo2 molmo2_text molmo2_vision moshi mpnet mpt
muse_spark_text musicflamingo musicgen nemo_speechlm nemotron_h neomme nomic_bert_own olmo_hybrid
omniasr omniasr_audio omniasr_ctc opt ovis2 ovis2_vision parakeet_encoder perceiver phi4_multimodal
pix2struct pixtral poolformer pp_lcnet prophetnet pvt qwen3_next radio recurrent_gemma reformer
regnet rembert resnet roc_bert roformer rwkv sam sam2 sam2_video sam3 sam_hq sam_vision_model
santacoder sapiens2 sarvam_moe segformer seggpt sew speech_to_text splinter squeezebert step3p7
superpoint swin swin2sr t5 t5gemma tapas textnet timesformer tipsv2 tvp udop ultravbert uvdoc
vibevoice_asr video_llava vilt visual_bert vit vitdet vjepa2 voxtral_realtime voxtral_realtime_text
wav2vec2 whisper xclip xglm xlm xlnet xlstm xmod yolos yuan zamba zamba2 zaya
"""
# An architecture, and a model type whose defaults build one.
FAMILIES = {
    **{name: name for name in _SAME.split()},
    "aimv2_text": "aimv2_text_model",
    "aimv2_vision": "aimv2_vision_model",
    "audio_text": "audioflamingo3",
    "blip_2": "blip-2",
    "blip_2_vision": "blip_2_vision_model",
    "bridgetower_vision": "bridgetower_vision_model",
    "chameleon_vqvae": "chameleon_vqgan",
    "clip_text": "clip_text_model",
    "clip_vision": "clip_vision_model",
    "contrastive": "clip",
    "davit": "florence_vision",
    "deepseek_hybrid": "deepseek_vl_hybrid",
    "deepseek_ocr": "deepseek_ocr2",
    "docling": "granite_docling",
    "docling_vision": "granite_docling_vision",
    "dots3": "dots3_note",
    "dots3_audio": "dots3_note_audio_encoder",
    "dots3_vision": "dots3_note_vision_encoder",
    "efficient_bert": "mra",
    "ernie_vision": "ernie4_5_vl_moe_vision",
    "ernie_vl": "ernie4_5_vl_moe",
    "flava_codebook": "flava_image_codebook",
    "flava_text": "flava_text_model",
    "florence": "florence2",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_multimodal": "gemma4",
    "glm5_next": "glm5_next_text",
    "glm_vision": "glm4v_moe_vision",
    "grok": "grok-1",
    "group_vision": "groupvit_vision_model",
    "hunyuan_vision": "hunyuan_vl_vision",
    "hy_v4_vision": "hy_v4_vl_vision",
    "hyperclovax_vision": "hyperclovax_vision_v2",
    "inkling": "inkling_text",
    "inkling2": "inkling2_loop_text",
    "inkling2_multimodal": "inkling2",
    "inkling_multimodal": "inkling_mm_model",
    "joined_after_norm": "cosmos3_edge",
    "kosmos": "kosmos-2",
    "late_interaction": "colpali",
    "latent_decoder": "minicpm3",
    "lfm_vision": "lfm3_vl_vision",
    "llama4_vision": "llama4_vision_model",
    "masked_autoencoder": "videomae",
    "mgp_str": "mgp-str",
    "minicpm_v": "minicpm_ocr",
    "minicpm_vision": "minicpm_ocr_vision",
    "minimax_m3_text": "minimax_m3_vl_text",
    "minimax_m3_vision": "minimax_m3_vl_vision",
    "mistral_large4": "mistral_large4_text",
    "mixformer": "mixformer-sequential",
    "mllama_text": "mllama",
    "mllama_vision": "mllama_vision_model",
    "moe": "afmoe",
    "moon_vit": "kimi_k25_vision",
    "moonshine_encoder": "moonshine_streaming_encoder",
    "muse": "muse_glimmer",
    "muse_audio": "muse_spark_audio",
    "muse_vision": "muse_glimmer_vision",
    "nemo_encoder": "nemotron3_5_transcribe_asr_audio",
    "nemotron_omni": "nemotron_h_omni",
    "nllb_moe": "nllb-moe",
    "omni_audio_encoder": "qwen2_5_omni_audio_encoder",
    "openai_gpt": "openai-gpt",
    "paddleocr": "paddleocr_vl",
    "parakeet": "parakeet_ctc",
    "per_layer": "deci",
    "phi4_audio": "phi4_multimodal_audio",
    "phi_msft": "phi-msft",
    "qformer": "blip_2_qformer",
    "qwen_audio_encoder": "qwen3_asr_encoder",
    "qwen_vision": "cohere_compass_vision",
    "qwen_vl": "cohere_compass",
    "rows_vision": "kosmos_2_5_vision_model",
    "hiera_det": "sam2_hiera_det_model",
    "sam2_vision": "sam2_vision_model",
    "sam3_lite_text_text": "sam3_lite_text_text_model",
    "sam3_vision": "sam3_vision_model",
    "sam3_vit": "sam3_vit_model",
    "sam_vision": "got_ocr2_vision",
    "seamless": "seamless_m4t",
    "step3_vision": "step3p5_vision",
    "tipsv2_text": "tipsv2_text_model",
    "transcriber": "moonshine",
    "vibevoice_tokenizer": "vibevoice_acoustic_tokenizer_encoder",
    "whisper_encoder": "audioflamingo3_encoder",
    "xclip_vision": "xclip_vision_model",
}
# Parts that stand inside others alone, architectures of presets, and types whose own defaults
# describe no model.
_WITHOUT_A_TYPE = """
alt_text conformer dots3_note emu3 encoder_decoder ernie_vl_text esm gpt_from_scratch granite_vision
hifi_gan llama4 minicpm_moe mllama palm qwen4_exp seamless_speech seamless_units shieldgemma2
tool_decoder torchvision_resnet transformer xclip_frames
"""
WITHOUT_A_TYPE = frozenset(_WITHOUT_A_TYPE.split())


@cache
def family(name: str) -> Model:
    """The model of an architecture, loaded once."""
    return sizer.load({"model_type": FAMILIES[name]})


def has_flops(model: Model) -> bool:
    """Whether it is known at how many places of an image all of a model's convolutions run."""
    try:
        model.flops()
    except NotDescribed:
        return False
    return True
