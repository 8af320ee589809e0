"""Import campaign on networks of torchvision, timm and pytorchcv, with random weights.

The packages are in the extra ``campaign``. As a script it prints a line per network, and the counts.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from types import ModuleType

import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.importers.layers.network import imported

TORCHVISION = """
alexnet vgg11 vgg11_bn vgg16_bn resnet18 resnet34 resnet50 resnext50_32x4d wide_resnet50_2 squeezenet1_0
squeezenet1_1 densenet121 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet0_5 mnasnet1_0 googlenet
shufflenet_v2_x0_5 regnet_x_400mf regnet_y_400mf efficientnet_b0 convnext_tiny vit_b_16 swin_t
"""
TIMM = """
resnet10t resnet14t resnet18 resnet26 resnet26d resnet34 seresnet18 vgg11 vgg13_bn mobilenetv1_100 mobilenetv2_035
mobilenetv2_050 mobilenetv3_small_050 mnasnet_small semnasnet_075 spnasnet_100 fbnetc_100 efficientnet_lite0
densenet121 dla34 dla46_c hrnet_w18_small regnetx_002 regnety_002 resnext26ts repvgg_a0 ghostnet_050 mixnet_s
tinynet_e hardcorenas_a lcnet_035 lcnet_050 selecsls42 vovnet39a xception41 darknet17 darknet21 cspresnet50
convmixer_768_32 edgenext_xx_small deit_tiny_patch16_224 gernet_s dpn48b res2net50_26w_4s
"""
PYTORCHCV = """
alexnet vgg11 bn_vgg11 resnet10 resnet12 resnet18 preresnet10 preresnet18 seresnet10 resnext14_16x4d
squeezenet_v1_0 squeezeresnet_v1_0 mobilenet_wd4 mobilenet_w1 mobilenetv2_wd4 mobilenetv2_w1 fdmobilenet_wd4
shufflenet_g1_wd4 mnasnet_b1 darknet_ref darknet_tiny darknet19 peleenet nin_cifar10 resnet20_cifar10
preresnet20_cifar10 wrn16_10_cifar10 densenet40_k12_cifar10 resnet20_svhn diracnet18v2 efficientnet_b0
menet108_8x1_g3 igcv3_wd4
"""
LARGE = ("alexnet", "vgg", "vit", "deit", "swin")
"""Name prefixes of networks that need a certain image size, for equal pool windows or at all."""
RIGHT, WRONG, REFUSED, FAILED = "accepted right", "accepted wrong", "refused", "traceback"


def built() -> Iterator[tuple[str, nn.Module, tuple[int, ...]]]:
    """Each network with random weights: name, module, and shape of a small sample."""
    # detection operators, missing from CUDA wheels next to a CPU PyTorch; classifiers need none
    sys.modules.setdefault("torchvision._meta_registrations", ModuleType("torchvision._meta_registrations"))
    import timm
    import torchvision
    from pytorchcv.model_provider import get_model

    def of_torchvision(name: str) -> nn.Module:
        settings = {"init_weights": False, "aux_logits": False} if name == "googlenet" else {}
        return torchvision.models.get_model(name, weights=None, num_classes=10, **settings)

    makers = (
        ("torchvision", TORCHVISION, of_torchvision),
        ("timm", TIMM, lambda name: timm.create_model(name, pretrained=False, num_classes=10)),
        ("pytorchcv", PYTORCHCV, lambda name: get_model(name, pretrained=False)),
    )
    for package, names, make in makers:
        for name in names.split():
            torch.manual_seed(0)
            sides = (32,) if name.endswith(("cifar10", "svhn")) else (224,) if name.startswith(LARGE) else (64, 224)
            module = make(name).eval()
            yield f"{package} {name}", module, (3, *[_side(module, sides)] * 2)


def _side(module: nn.Module, sides: tuple[int, ...]) -> int:
    """Smallest of these image sides accepted by the network."""
    for side in sides:
        try:
            with torch.no_grad():
                module(torch.zeros(1, 3, side, side))
        except (RuntimeError, ValueError, AssertionError):
            continue
        return side
    return sides[-1]


def outcome(module: nn.Module, shape: tuple[int, ...], name: str) -> tuple[str, str]:
    """Import a network; returns the class of the outcome, and the reason or the largest error."""
    generator = torch.Generator().manual_seed(1)
    for one in module.modules():
        if isinstance(one, nn.BatchNorm2d) and one.running_mean is not None:
            one.running_mean.uniform_(-0.1, 0.1, generator=generator)
            one.running_var.uniform_(0.5, 1.5, generator=generator)
    try:
        network, own = imported(module, shape, name)
    except UserError as refusal:
        return REFUSED, str(refusal)
    except Exception as error:
        return FAILED, "".join(traceback.format_exception_only(error)).strip()
    inputs = torch.rand(2, *shape, generator=generator)
    with torch.no_grad():
        expected, found = module(inputs), own(inputs)
    error = float((found - expected).abs().max()) / max(float(expected.abs().max()), 1e-6)
    same = bool(torch.isfinite(expected).all()) and error < 1e-3
    return (RIGHT if same else WRONG), f"{len(network.stages)} stages, error {error:.1g}"


def campaign() -> dict[str, tuple[str, str]]:
    """Outcome by network name."""
    return {name: outcome(module, shape, name) for name, module, shape in built()}


if __name__ == "__main__":
    found = {}
    for title, module, shape in built():
        found[title] = outcome(module, shape, title)
        print(title, "x".join(map(str, shape)), *found[title], sep=" | ", flush=True)
    print(Counter(kind for kind, _ in found.values()), file=sys.stderr)
