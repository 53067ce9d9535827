"""What a reader refuses in a configuration: one line that names the key, the value and the rule."""

from __future__ import annotations

from typing import Any

import pytest

import sizer
from sizer.core.pattern import Pattern

# model type, class or none, what the file says, what the sentence has.
ROWS: list[tuple[str, str | None, dict[str, Any], str]] = [
    (
        "blt",
        None,
        {"encoder_hash_byte_group_size": 3},
        "encoder_hash_byte_group_size = 3 is not a list of sizes",
    ),
    ("gpt_neo", None, {"attention_layers": "global"}, "attention_layers = 'global' is not a list"),
    ("gpt_neo", None, {"attention_types": [[["global"], 10**6]]}, "lists more than"),
    ("gpt_neo", None, {"attention_types": [[["global"], 3]]}, "makes 3 layers and num_layers = 24"),
    ("gpt_neo", None, {"attention_types": [3]}, "is not of the form [[[kind, …], times], …]"),
    (
        "gemma3n_text",
        None,
        {"num_kv_shared_layers": 99},
        "num_kv_shared_layers = 99 is more than the 35 layers",
    ),
    ("gemma3n_text", None, {"intermediate_size": [3, 4]}, "is not one size for each layer"),
    ("gemma4_text", None, {"per_layer_config": [1]}, "per_layer_config = [1]"),
    ("qwen2", None, {"max_window_layers": "all", "use_sliding_window": True}, "max_window_layers = 'all'"),
    ("llama4_text", None, {"interleave_moe_layer_step": 0}, "its values describe no llama4_text model"),
    ("qwen2", None, {"use_sliding_window": True, "layer_types": 3}, "layer_types = 3 is not a list of words"),
    ("smollm3", None, {"num_hidden_layers": 10**7}, "num_hidden_layers is beyond 100,000"),
    ("smollm3", None, {"num_hidden_layers": -1}, "num_hidden_layers = -1 is negative"),
    ("modernbert", None, {"layer_types": ["x"] * 22}, "layer_types has 'x'; the kinds are full_attention"),
    ("speech_to_text", None, {"conv_kernel_sizes": [5]}, "conv_kernel_sizes lists 1 of 2 convolutions"),
    ("moshi", "MoshiForConditionalGeneration", {}, "an audio codec and a depth decoder"),
    ("moshi", None, {"ffn_dim": 5}, "ffn_dim = 5 is odd; a gated MLP halves it"),
    ("musicgen", "MusicgenForConditionalGeneration", {}, "a text encoder and an audio codec"),
    ("hunyuan_v1_moe", None, {"num_experts_per_tok": [1, 2]}, "layers that differ in it are not supported"),
    ("deepseek_v4", None, {"layer_types": ["x"] * 61}, "'x' is no kind of layer"),
    ("lfm2", None, {"layer_types": ["x"] * 16}, "'x'"),
    (
        "minicpm",
        None,
        {"num_experts": 8, "first_k_dense_replace": 1},
        "with leading dense layers is not known",
    ),
    ("granite", None, {"embedding_multiplier": True, "num_attention_heads": 0}, "num_attention_heads"),
    ("parakeet_tdt", None, {"num_decoder_layers": 65}, "num_decoder_layers = 65 is beyond 64"),
    ("bert", None, {"add_cross_attention": True}, "cross_attention needs a decoder"),
    ("deit", "DeiTForMaskedImageModeling", {}, "no class named 'DeiTForMaskedImageModeling'"),
    ("dinov2", "Dinov2Backbone", {}, "no class named 'Dinov2Backbone'"),
    ("dpr", "DPRModel", {}, "no class named 'DPRModel'"),
    ("splinter", "SplinterForCausalLM", {}, "no class named 'SplinterForCausalLM'"),
    ("visual_bert", "VisualBertForQuestionAnswering", {}, "no class named"),
    ("visual_bert", None, {"bypass_transformer": True}, "bypass_transformer: the layer that it adds"),
    ("vilt", "ViltForQuestionAnswering", {}, "no class named 'ViltForQuestionAnswering'"),
    ("funnel", None, {"block_repeats": [1]}, "block_repeats lists 1 blocks and block_sizes"),
    ("reformer", None, {"attn_layers": ["global"]}, "attn_layers must name 'local' or 'lsh'"),
    ("reformer", None, {"attn_layers": []}, "attn_layers must name 'local' or 'lsh'"),
    ("xlm", "XLMWithLMHeadModel", {"asm": True}, "asm = true, an adaptive softmax, is not known"),
    (
        "perceiver",
        "PerceiverForMultimodalAutoencoding",
        {},
        "PerceiverForMultimodalAutoencoding is not known",
    ),
    ("blip", "BlipForVideo", {}, "no class named 'BlipForVideo'"),
    ("clip", "CLIPForDetection", {}, "no class named 'CLIPForDetection'"),
    ("clip_vision_model", None, {"patch_size": [16, 14]}, "patch_size = [16, 14] is not a square"),
    ("wav2vec2-bert", None, {"add_adapter": True}, "the adapters of a wav2vec2-bert are not described"),
    ("bit", None, {"depths": [3] * 5}, "hidden_sizes lists 4 stages and depths 5"),
    ("bit", None, {"layer_type": "x"}, "layer_type = 'x' is neither preactivation nor bottleneck"),
    ("bit", None, {"global_padding": "x"}, "global_padding = 'x' is neither same nor valid"),
    ("bit", None, {"num_groups": 7}, "have no num_groups = 7 groups of one size"),
    ("pvt", None, {"num_attention_heads": [1, 2, 5, 7]}, "are no multiples of the heads"),
    ("convnext", None, {"depths": [3]}, "hidden_sizes lists 4 stages and depths 1"),
    ("regnet", None, {"depths": [3]}, "hidden_sizes lists 4 stages and depths 1"),
    ("resnet", None, {"depths": [3]}, "hidden_sizes lists 4 stages and depths 1"),
    ("resnet", None, {"layer_type": "x"}, "layer_type = 'x' is neither basic nor bottleneck"),
    ("bert", None, {"hidden_act": "prelu"}, "hidden_act = prelu has parameters of its own"),
    ("apertus", None, {"hidden_act": "prelu"}, "which are not described for apertus"),
    ("llava", None, {"text_config": {"hidden_act": "xielu"}}, "hidden_act = xielu has parameters"),
    ("siglip2_vision_model", None, {"num_patches": None}, "num_patches = None is not a positive"),
    ("git", None, {"num_image_with_embedding": 2**40}, "is beyond 1,000"),
    ("clip", None, {"projection_dim": None}, "projection_dim = None is not a positive"),
    ("dac", None, {"decoder_hidden_size": 3}, "decoder_hidden_size = 3 cannot be halved"),
    ("mimi", None, {"num_semantic_quantizers": 99}, "is not less than num_quantizers"),
    ("mimi", None, {"frame_rate": -1}, "frame_rate = -1 is not a number up to"),
    ("encodec", None, {"num_lstm_layers": 65}, "is not a number of layers up to 64"),
    ("encodec", None, {"upsampling_ratios": [0]}, "is not a whole number for each stage"),
    ("encodec", None, {"norm_type": "x"}, "norm_type = 'x' is neither of the two"),
    ("wav2vec2", None, {"conv_stride": [1]}, "lists no step for each convolution"),
    ("sam3", "Sam3ForVideo", {}, "no class named 'Sam3ForVideo'"),
    ("sam3", None, {"mask_decoder_config": {"hidden_size": 60}}, "60"),
    ("vitdet", None, {"patch_size": [0, 16]}, "has a side below 1"),
    ("splinter", "SplinterForDetection", {}, "no class named 'SplinterForDetection'"),
    ("bridgetower", "BridgeTowerForDetection", {}, "no class named 'BridgeTowerForDetection'"),
    ("clvp", "ClvpForDetection", {}, "no class named 'ClvpForDetection'"),
    ("flava", "FlavaForDetection", {}, "no class named 'FlavaForDetection'"),
    ("groupvit_vision_model", None, {"num_group_tokens": [64]}, "num_group_tokens lists 1 stages"),
    ("udop", None, {"relative_bias_args": []}, "is not a list of kinds of distance"),
    ("convnext", None, {"num_stages": 9}, "num_stages = 9, and depths lists"),
    ("poolformer", None, {"num_encoder_blocks": 9}, "num_encoder_blocks = 9, and depths lists"),
    ("depth_pro", "DepthProForDetection", {}, "no class named 'DepthProForDetection'"),
    ("depth_pro", None, {"image_model_config": {"model_type": "vit"}}, "is a vit; only dinov2 is read"),
    ("efficientloftr", "EfficientLoFTRForX", {}, "no class named 'EfficientLoFTRForX'"),
    ("efficientloftr", None, {"stage_num_blocks": [1]}, "list different stages"),
    ("efficientloftr", None, {"hidden_size": 8}, "hidden_size = 8 is not the last of out_features"),
    ("efficientloftr", None, {"rope_parameters": 1}, "are not those of the default kind"),
    ("efficientloftr", None, {"head_dim": 8}, "head_dim: a width of heads of its own"),
    ("efficientnet", None, {"depthwise_padding": 1}, "depthwise_padding = 1 is not a list of blocks"),
    ("convnext", None, {"image_size": [1, 2, 3]}, "is neither a side nor a height and a width"),
    ("poolformer", None, {"strides": [4]}, "does not list a number of pixels for each stage"),
    ("segformer", None, {"strides": [0, 2, 2, 2]}, "has a step of no pixel"),
    ("hgnet_v2", "HGNetV2ForX", {}, "no class named 'HGNetV2ForX'"),
    ("hgnet_v2", None, {"stem_channels": [3, 1, 48]}, "stem_channels: 1 channel has no half"),
    ("hgnet_v2", None, {"stage_out_channels": [1, 512, 1024, 2048]}, "1 channel has no half"),
    ("imagegpt", "ImageGPTForX", {}, "no class named 'ImageGPTForX'"),
    ("imagegpt", "ImageGPTForCausalImageModeling", {"vocab_size": 1}, "leaves no colour"),
    (
        "imagegpt",
        "ImageGPTForCausalImageModeling",
        {"tie_word_embeddings": True},
        "is not the table of 513 tokens",
    ),
    ("textnet", None, {"hidden_act": "prelu"}, "hidden_act = prelu has parameters"),
    ("swin2sr", None, {"hidden_act": ""}, "is not the name of a function"),
    ("swin2sr", None, {"depths": []}, "is not a list with an entry for each stage"),
    ("swin2sr", None, {"num_heads": [6]}, "lists 1 entries where there must be"),
    ("swin2sr", None, {"depths": [0]}, "0 is not a positive whole number"),
    ("swin2sr", "Swin2SRForX", {}, "no class named 'Swin2SRForX'"),
    ("swin2sr", None, {"embed_dim": 181}, "is not a multiple of num_heads"),
    ("swin2sr", None, {"resi_connection": "2conv"}, "is neither 1conv nor 3conv"),
    ("swin2sr", None, {"patch_size": 65}, "leaves no patch of an image"),
    ("swin2sr", "Swin2SRForImageSuperResolution", {"upscale": 5}, "is neither 3 nor a power of two"),
    (
        "swin2sr",
        "Swin2SRForImageSuperResolution",
        {"upsampler": "nearest+conv", "upscale": 2},
        "nearest+conv makes an image 4 times as large",
    ),
    ("vit_mae", None, {"mask_ratio": 2}, "mask_ratio = 2 is not a share of the patches"),
    ("mgp-str", "MgpstrForX", {}, "no class named 'MgpstrForX'"),
    ("pp_lcnet", "PPLCNetForX", {}, "no class named 'PPLCNetForX'"),
    ("resnet", "ResNetForCausalLM", {}, "no class named 'ResNetForCausalLM'"),
    ("vit", "ViTForCausalLM", {}, "no class named 'ViTForCausalLM'"),
    ("sapiens2", "Sapiens2ForX", {}, "no class named 'Sapiens2ForX'"),
    ("sapiens2", None, {"use_gated_mlp": False}, "use_gated_mlp = false"),
    ("sapiens2", None, {"num_key_value_heads_per_layer": [1]}, "num_key_value_heads_per_layer lists 1"),
    ("superpoint", None, {"encoder_hidden_sizes": [64]}, "there are at least two"),
    ("lightglue", None, {"keypoint_detector_config": {"model_type": "vit"}}, "only superpoint is read"),
    ("lightglue", None, {"descriptor_dim": 7}, "descriptor_dim = 7 is not num_attention_heads"),
    ("textnet", None, {"conv_layer_strides": [[1]]}, "list different layers"),
    ("tipsv2", None, {"text_config": {"hidden_size": 64}}, "hidden_size is 64 in text_config"),
    ("uvdoc", "UVDocForX", {}, "no class named 'UVDocForX'"),
    ("uvdoc", None, {"backbone_config": {"model_type": "vit"}}, "only uvdoc_backbone is read"),
    ("vjepa2", "VJEPA2ForX", {}, "no class named 'VJEPA2ForX'"),
    ("resnet", "ResNetForDetection", {}, "no class named 'ResNetForDetection'"),
    ("detr", None, {"backbone_config": {"model_type": "swin"}}, "backbone_config: swin is not described"),
    ("detr", None, {"backbone": "resnet101", "use_timm_backbone": True}, "'resnet101' is one of timm's"),
    ("detr", "DetrForSegmentation", {}, "no class named 'DetrForSegmentation'"),
    ("cvt", None, {"depth": [1, 1, 10]}, "stage i must have more than i layers"),
    ("cvt", None, {"num_heads": [1, 3, 7]}, "are no multiples of num_heads"),
    ("cvt", None, {"qkv_bias": [True]}, "qkv_bias = [True] does not list 3 stages"),
    ("cvt", None, {"qkv_projection_method": ["x"] * 3}, "is none of dw_bn, avg and linear"),
    ("dpt", None, {"is_hybrid": True}, "a DPT that reads the features of a BiT, is not described"),
    ("dpt", "DPTForDepthEstimation", {}, "no class named 'DPTForDepthEstimation'"),
    ("focalnet", None, {"focal_levels": [65] * 4}, "focal_levels has 65 windows in a stage"),
    ("hiera", None, {"masked_unit_size": [6, 6]}, "masked_unit_size 6 does not divide 3 times by 2"),
    ("hiera", None, {"num_query_pool": 4}, "num_query_pool = 4 is not below 4 stages"),
    ("hiera", None, {"masked_unit_attention": [True]}, "does not list 4 stages"),
    *(
        (model_type, None, {"hidden_act": "prelu"}, "prelu has parameters of its own")
        for model_type in (
            "bit",
            "dpt",
            "efficientnet",
            "focalnet",
            "hiera",
            "mobilenet_v2",
            "mobilevit",
            "pvt",
        )
    ),
    ("align", None, {"text_config": {"hidden_act": "prelu"}}, "prelu has parameters of its own"),
    ("efficientnet", None, {"strides": [3] * 7}, "each of them must be 1 or 2"),
    ("efficientnet", None, {"out_channels": [8]}, "out_channels lists 1 stages, and there are 7"),
    ("efficientnet", None, {"in_channels": 8}, "in_channels = 8 is not a list with an entry a stage"),
    ("efficientnet", None, {"in_channels": [1] * 65}, "in_channels lists 65 stages"),
    ("efficientnet", None, {"pooling_type": "x"}, "pooling_type = 'x' is neither mean nor max"),
    ("efficientnet", None, {"depth_coefficient": 9999.0}, "the most is 100,000"),
    ("vitdet", None, {"window_block_indices": "x", "window_size": 7}, "'x' is not a list of layers"),
    ("vitdet", "VitDetForDetection", {}, "no class named 'VitDetForDetection'"),
    ("seggpt", None, {"intermediate_hidden_state_indices": []}, "leaves the decoder nothing to read"),
    ("seggpt", "SegGptForDetection", {}, "no class named 'SegGptForDetection'"),
    ("tvp", None, {"visual_prompter_type": "framedownpad"}, "'framedownpad' is not described"),
    ("tvp", None, {"backbone": "resnet101"}, "backbone = 'resnet101' is one of timm's"),
    ("tvp", None, {"backbone_config": {"model_type": "swin"}}, "backbone_config: swin is not described"),
    ("tvp", "TvpForDetection", {}, "no class named 'TvpForDetection'"),
    ("sam3", None, {"detr_encoder_config": {"hidden_size": 64}}, "detr_encoder_config is 64 wide"),
    (
        "sam3",
        None,
        {"mask_decoder_config": {"num_upsampling_stages": 1001}},
        "1,001 is beyond 1,000",
    ),
    ("sam3", None, {"text_config": {"model_type": "bert"}}, "text_config: bert is not described"),
    ("sam2_hiera_det_model", None, {"blocks_per_stage": [1]}, "blocks_per_stage lists 1 stages, embed_dim"),
    ("sam2_hiera_det_model", None, {"embed_dim_per_stage": []}, "is not a list of up to 16 positive"),
    ("sam2_hiera_det_model", None, {"patch_kernel_size": [7]}, "(7,) is not a height and a width"),
    ("sam2_hiera_det_model", None, {"blocks_per_stage": [1, 1, 10**5, 1]}, "more than 100,000 blocks"),
    ("sam2_hiera_det_model", None, {"num_attention_heads_per_stage": [1, 2, 4, 7]}, "does not part into 7"),
    ("sam2", None, {"vision_config": {"model_type": "vit"}}, "vision_config: vit is not described"),
    ("sam2", "Sam2ForDetection", {}, "no class named 'Sam2ForDetection'"),
    ("sam2_video", None, {"mask_downsampler_stride": 1}, "mask_downsampler_stride = 1 reaches"),
    ("sam2_video", None, {"memory_attention_num_attention_heads": 3}, "256 wide does not part into 3"),
    ("sam2_video", None, {"memory_attention_rope_feat_sizes": [64]}, "lists 1 sizes, which must be 2"),
    ("sam3_tracker", "Sam3TrackerForX", {}, "no class named 'Sam3TrackerForX'"),
    ("sam3_vision_model", None, {"scale_factors": [3.0]}, "scale_factors = [3.0] is not a list of some"),
    ("sam3_vision_model", None, {"backbone_config": {"model_type": "vit"}}, "vit is not described"),
    ("emu3_vqgan", None, {"temporal_downsample_factor": 0}, "temporal_downsample_factor = 0 is not"),
    ("florence_vision", None, {"depths": [1]}, "depths lists 1 stages and embed_dim 4"),
    (
        "seamless_m4t",
        "SeamlessM4TForTextToSpeech",
        {"upsample_initial_channel": 513},
        "cannot be halved 5 times",
    ),
    ("seamless_m4t", "SeamlessM4TForMusic", {}, "no class named 'SeamlessM4TForMusic'"),
    ("levit", None, {"depths": [4]}, "depths lists 1 stages, and there are 3"),
    ("levit", None, {"hidden_sizes": [7, 8, 9]}, "follows from hidden_sizes, key_dim or image_size"),
    ("llava_next_video", None, {"spatial_pool_mode": "conv"}, "spatial_pool_mode = 'conv' is not described"),
    ("vit_mae", "ViTMAEForDetection", {}, "no class named 'ViTMAEForDetection'"),
    ("mobilevit", None, {"num_attention_heads": 5}, "are not all multiples of num_attention_heads = 5"),
    ("mobilevit", None, {"neck_hidden_sizes": [16]}, "neck_hidden_sizes lists 1 stages, and there are 7"),
    ("mobilevitv2", None, {"base_attn_unit_dims": [2**40] * 3, "ffn_multiplier": 2**40}, "is beyond"),
    ("molmo", None, {"intermediate_size": 5}, "intermediate_size = 5 is odd"),
    ("minicpm_ocr", None, {"merger_times": 2}, "merger_times = 2 is not described"),
    ("omniasr_ctc", None, {"audio_config": {"conv_dim": [1]}}, "conv_dim lists 1 layers and conv_kernel"),
    ("parakeet_encoder", None, {"subsampling_factor": 1}, "subsampling_factor = 1 does not halve"),
    ("sam", None, {"mask_decoder_config": {"hidden_size": 128}}, "prompt_encoder_config is 256 wide"),
    (
        "sam",
        None,
        {"mask_decoder_config": {"iou_head_depth": 1}},
        "iou_head_depth = 1 is not between 2 and 64",
    ),
    ("sam", None, {"prompt_encoder_config": {"num_point_embeddings": 1001}}, "1,001 is beyond 1,000"),
    ("sam_hq", "SamHQForDetection", {}, "no class named 'SamHQForDetection'"),
    ("segformer", None, {"depths": [1]}, "depths lists 1 stages and num_encoder_blocks is 4"),
    ("swin", None, {"depths": [1]}, "depths lists 1 stages and num_heads 4"),
    (
        "swin",
        None,
        {"depths": [1] * 17, "num_heads": [1] * 17},
        "depths lists 17 stages; no Swin has as many",
    ),
    ("vit", "ViTForDetection", {}, "no class named 'ViTForDetection'"),
    ("yolos", "YolosForSegmentation", {}, "no class named 'YolosForSegmentation'"),
    ("timesformer", None, {"attention_type": "x"}, "attention_type = 'x' is none of those that are known"),
    ("vivit", None, {"tubelet_size": [2, 16, 8]}, "tubelet_size = [2, 16, 8] is not frames, side, side"),
    ("vibevoice_acoustic_tokenizer_encoder", None, {"depths": [1]}, "depths lists 1 stages"),
    ("kimi_k25_own", None, {"vision_config": {"mm_projector_type": "mlp"}}, "only 'patchmerger' is known"),
    ("kimi_k25_own", None, {"vision_config": {"merge_kernel_size": 2}}, "is not a height and a width"),
    ("deepseek_ocr2", None, {"vision_config": {"sam_config": {"downsample_channels": 3}}}, "of two widths"),
    ("muse_spark_audio", None, {"depths": [1]}, "do not list as many stages"),
    ("modernvbert", None, {"text_config": {"model_type": "bert"}}, "a bert is not known here"),
    ("dpr", "DPRPretrainedQuestionEncoder", {}, "no class named 'DPRPretrainedQuestionEncoder'"),
    ("splinter", None, {"architectures": ["SplinterForCausalLM"]}, "no class named 'SplinterForCausalLM'"),
    ("resnet", None, {"architectures": ["ResNetForMaskedLM"]}, "no class named 'ResNetForMaskedLM'"),
    ("vit", None, {"architectures": ["ViTForCausalLM"]}, "no class named 'ViTForCausalLM'"),
    ("qwen3_5", None, {"architectures": ["Qwen3_5TextLayer"]}, "the language model alone is known"),
    ("wav2vec2", "Wav2Vec2ForXVector", {}, "no class named 'Wav2Vec2ForXVector'"),
    ("wav2vec2", None, {"conv_dim": [1]}, "conv_dim lists 1 layers and conv_kernel 7"),
    ("smollm3", None, {"no_rope_layers": "all"}, "no_rope_layers = 'all' is not a list of numbers"),
    ("smollm3", None, {"no_rope_layers": [1]}, "no_rope_layers lists 1 layers of num_hidden_layers = 36"),
    ("gemma4_text", None, {"per_layer_config": {"0": {"head_dim": 3}}}, "only full layers, all alike"),
    ("dots3_note_text", None, {"per_layer_config": {"0": {"qk_nope_head_dim": 3}}}, "different sizes"),
    (
        "qwen4_exp_text",
        None,
        {"ple_layer_ids": [1], "ngram_vocab_size_base": 10**11},
        "tables of n-grams are too large",
    ),
    (
        "qwen4_exp_text",
        None,
        {
            "split_ngram_parts": 0,
            "ple_layer_ids": [1],
            "ngram_vocab_size_base": 1000,
            "layer_types": ["linear_attention"] * 4,
            "num_hidden_layers": 4,
        },
        "ngram_shards = 0",
    ),
]


@pytest.mark.parametrize(("model_type", "cls", "says", "words"), ROWS, ids=lambda x: str(x)[:40])
def test_what_is_not_known_is_refused(
    model_type: str, cls: str | None, says: dict[str, Any], words: str
) -> None:
    with pytest.raises(sizer.SizerError) as error:
        sizer.load({"model_type": model_type, **says}, cls=cls)

    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_pattern_of_letters_is_the_pattern_of_its_length() -> None:
    # LGAI-EXAONE/EXAONE-4.0-32B, config.json: "LLLG", three local layers and a global one.
    letters, number = (
        sizer.load({"model_type": "exaone4", "sliding_window_pattern": pattern}) for pattern in ("LLLG", 4)
    )

    assert letters.count().total == number.count().total
    assert letters.kv_cache(1, 9000).bytes == number.kv_cache(1, 9000).bytes


def test_one_number_of_experts_for_each_layer() -> None:
    # tencent/Hunyuan-A13B-Instruct, config.json: "moe_topk": [8, 8, …].
    config = {"model_type": "hunyuan_v1_moe", "num_hidden_layers": 2, "num_experts": 4}
    listed, number = (sizer.load({**config, "num_experts_per_tok": k}).count() for k in ([2, 2], 2))

    assert (listed.total, listed.active) == (number.total, number.active)
    assert listed.active < listed.total


def test_a_width_without_a_multiplier() -> None:
    # transformers, Lfm2MLP: two thirds of the width, and no more where the multiplier is null.
    said = {"intermediate_size": 3000, "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": None}
    shapes = {t.name: t.shape for t in sizer.load({"model_type": "lfm2", **said}).tensors()}

    assert shapes["model.layers.0.feed_forward.w1.weight"] == (2000, 2560)


def test_either_one_width_or_one_a_layer() -> None:
    model = sizer.load({"model_type": "gemma3n_text"})
    with pytest.raises(sizer.SizerError, match="give either d_ff or layers_d_ff"):
        model.with_values(d_ff=3, layers_d_ff=[3] * 35)


def test_a_list_for_another_number_of_layers() -> None:
    model = sizer.load({"model_type": "gemma3_text"})
    with pytest.raises(sizer.SizerError, match="n_layers"):
        model.with_values(n_layers=4, pattern=["window"] * 3)
    smollm = sizer.load({"model_type": "smollm3", "use_sliding_window": True, "sliding_window": 64})
    with pytest.raises(sizer.SizerError, match="window_layers lists 3 layers and n_layers = 4"):
        smollm.with_values(n_layers=4, window_layers=Pattern(("window", "full", "full")))
    with pytest.raises(sizer.SizerError, match="n_layers = 4, and the kinds of 3 layers are listed"):
        sizer.load({"model_type": "lfm2"}).with_values(n_layers=4, layers=Pattern(("conv",) * 3))
