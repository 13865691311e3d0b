"""The machines that people name, each with the target that converts for it. Light to import.

Sources: the release notes of JetPack (4.6 is the last for the Jetson Nano and TX2, 5.1 the last for Xavier, 6 is for
Orin), and NVIDIA's list of compute capabilities: engines of TensorRT for RTX leave out what is older than Ampere.
"""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = {
    "jetson": "orin orin-nano orin-nx agx-orin",
    "jetpack5": "xavier xavier-nx agx-xavier",
    "jetpack4": "nano tx1 tx2",
    "datacenter": "v100 t4 a2 a10 a16 a30 a40 a100 l4 l40 l40s h100 h200 gh200 b100 b200",
    "rtx": "rtx3050 rtx3060 rtx3070 rtx3080 rtx3090 rtx4050 rtx4060 rtx4070 rtx4080 rtx4090"
    " rtx5050 rtx5060 rtx5070 rtx5080 rtx5090 rtx-a2000 rtx-a4000 rtx-a5000 rtx-a6000",
}
MACHINES: Mapping[str, str] = {
    prefix + name: target
    for target, names in _NAMES.items()
    for prefix in (("", "jetson-") if target.startswith("jet") else ("",))
    for name in names.split()
}
"""The target for each machine."""
