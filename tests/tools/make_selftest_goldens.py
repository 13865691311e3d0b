"""Pack the goldens of ``prototrt selftest``: small ones, at least one of each family of layers that has any.

    python -m prototrt.tests.tools.make_selftest_goldens

writes ``converter/checking/selftest/goldens.tar.xz``, which the wheel has; tests/goldens is not in it.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prototrt.converter.checking.selftest.goldens import ARCHIVE, INDEX
from prototrt.tests.golden_cases import GOLDENS, SEQUENCES, Case, case_called

CAFFE = """
lstm_carry lstm_stream_t1 lstm_cont_resets lstm_expose_chunks lstm_static lstm_stacked lstm_t1_inplace lstm_unit
lstm_embed_caption rnn_carry rnn_t1_inplace net_crnn net_lrcn net_resnet_block v1_lenet
absval argmax_axis batchnorm_scale_relu_inplace bias_channel conv_dilation conv_3d crop_default deconv_bilinear_group
eltwise_max elu_alpha embed exp_base2 flatten_axes im2col_dilation ip_axis2 lrn_across mvn_default
pool_max_pad_drop_last pool_ave_pad prelu_per_channel reduction_mean_axis reshape_zero_infer sigmoid silence
slice_points softmax_channels spp_ave_uneven tile_axis
"""
FORKS = """
gru_synopsys conv_gru_backwards conv_lstm_peepholes attention_lstm spatial_recurrent ctc_blank_last
det_clip priorbox_min_only proposal_frcnn_cpp proposal_pvanet yolov2_output detectnet_clusters roi_pooling
roi_align_makefile psroi_align masks_of_mnc merge_crop interp_shrink resample_nearest_up2 upsample_mask_odd
resize_of_synopsys resize_from_corner projective_transformer psroi_pooling channel_norm layers_of_strangers
deconvolution3d deformable_convolution deformable_psroi_pooling flow_warp mean_field norm_l2
rows_of_maps operators_of_forks shuffle_channel reorg_stride2 spatial_rep_layer data_augmentation soft_proposal
lstm_node lite_flow places local correlation_1d nninterp
"""
CAFFE2 = """
caffe2/lstm_basic caffe2/lstm_t1 caffe2/lstm_ragged_drop caffe2/lstm_bidir caffe2/gru_linear_before_reset
caffe2/attn_dot caffe2/layernorm_lstm caffe2/ff_inception cudnn/lstm_2l
"""


def entries() -> Iterator[tuple[dict[str, Any], Path, list[str]]]:
    """What the index says of each golden, its folder, and the files of it that are packed."""
    for by, names in (("Caffe", CAFFE), ("formula", FORKS)):
        for name in names.split():
            case = case_called(name)
            yield (
                _of_case(case, by),
                case.folder,
                ["model.prototxt", str(case.facts["weights_file"]), *_calls(case)],
            )
    for name in CAFFE2.split():
        yield _of_caffe2(name)


def _calls(case: Case) -> list[str]:
    numbers = [f"_{call}" for call in range(case.calls)] if case.calls > 1 else [""]
    return [f"{kind}{number}.npz" for kind in ("inputs", "outputs") for number in numbers]


def _of_case(case: Case, by: str) -> dict[str, Any]:
    facts = case.facts
    return {
        "name": str(case),
        "by": by,
        "net": ["model.prototxt", facts["weights_file"]],
        "loading": {name: facts[name] for name in ("phase", "level", "stages")},
        "settings": facts.get("settings", {}).get("json", {}),
        "calls": case.calls,
        "sequences": case.sequences if case.is_recurrent else ["auto"],
    }


def _of_caffe2(name: str) -> tuple[dict[str, Any], Path, list[str]]:
    folder = GOLDENS / name
    meta = json.loads((folder / "meta.json").read_text())
    one_step = meta.get("T") == 1
    facts: dict[str, Any] = {
        "name": name.replace("/", "_"),
        "by": "formula" if name.startswith("cudnn") else "Caffe2",
        "net": ["predict_net.pb", "init_net.pb"],
        "loading": {},
        "settings": {},
        "calls": 1,
        "sequences": ["auto"] if "/ff_" in name else [way for way in SEQUENCES if way != "step" or one_step],
    }
    if "caffe2_net" in meta:
        facts["blobs"] = {kind: meta["caffe2_net"][kind] for kind in ("inputs", "outputs")}
    return facts, folder, ["predict_net.pb", "init_net.pb", "inputs.npz", "outputs.npz"]


def members() -> dict[str, bytes]:
    """The files of the archive."""
    packed = list(entries())
    files = {INDEX: json.dumps([facts for facts, *_ in packed], indent=0).encode()}
    for facts, folder, names in packed:
        files |= {f"{facts['name']}/{name}": (folder / name).read_bytes() for name in names}
    return files


def main() -> None:
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        for name, content in members().items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
