# %% [markdown]
# # A network of one's own, to Verilog
#
# A module in PyTorch becomes a core that fine-tunes it, where it consists of layers that the core has. Run this file as
# a script, or open it as a notebook (VS Code and Jupytext read the percent format).

# %%
from pathlib import Path

import torch
from torch import nn

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.importers.layers.network import network_of
from fabtune.hw.verilog import emit

torch.manual_seed(0)
module = nn.Sequential(
    nn.Conv2d(1, 4, kernel_size=3, padding=1),
    nn.BatchNorm2d(4),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(4 * 4 * 4, 10),
)

# %% [markdown]
# The description of the network is what the hardware is made from. An operator without hardware is refused by name.

# %%
network = network_of(module, input_shape=(1, 8, 8), name="mine")
for stage in network.stages:
    print(f"{stage.input_shape} -> {stage.output_shape}: {stage.layer}")

# %% [markdown]
# A core for it: 16 x 4 multipliers, batches of up to 10 samples. Batch norm is folded into the convolution. The weights
# are no part of the Verilog: the host loads them, so that one bitstream serves every training of this architecture.

# %%
spec = InstantftSpec.of(network, lanes=16, columns=4, batch=10)
emitted = emit(spec, top="my_trainer")

folder = Path("build/examples")
folder.mkdir(parents=True, exist_ok=True)
(folder / "my_trainer.v").write_text(emitted.verilog)
for name, text in spec.documents().items():  # the register map, for C and as a page
    (folder / name).write_text(text)

ports = [line.strip(" ;") for line in emitted.verilog.splitlines() if line.startswith(("  input", "  output"))]
print(f"{folder / 'my_trainer.v'}: {len(emitted.verilog.splitlines())} lines, {len(ports)} ports")
assert any("s_axi_control_awvalid" in port for port in ports)

# %% [markdown]
# Next: `fabtune tune --model mine.py:build --data npz:mine.npz --engine rtl` runs a whole job in this RTL and compares
# the adapters with golden after every batch; `fabtune estimate instantft --set "network=..."` counts LUTs and FFs.
