"""Device-tree overlay of a core, and the folder that ``xmutil loadapp`` of a Kria takes."""

from __future__ import annotations

import json

from ..vivado.ip import REGISTERS_AT

REGISTERS_SIZE = 0x1000
INTERRUPT = 89
"""Shared peripheral interrupt of line 0 of `pl_ps_irq0`."""
PL0_CLOCK = 71
"""Number of `pl_clk0` among the clocks of the processor's firmware."""
_PAGE = 4096


def overlay(name: str, mhz: float, memory: int) -> str:
    """Write a device-tree overlay.

    Parameters
    ----------
    name : str
        The core; its firmware is ``NAME.bit.bin``.
    mhz : float
        Its clock.
    memory : int
        Bytes of the buffer that it shares with programs, rounded up to pages: a u-dma-buf.
    """
    size = -(-memory // _PAGE) * _PAGE
    ports = ", ".join(f"<{port} 0>" for port in range(16))
    return f"""\
/* {name}: registers and interrupt as a UIO device, a buffer for jobs as a u-dma-buf, its clock. Generated. */
/dts-v1/;
/plugin/;

&fpga_full {{
	firmware-name = "{name}.bit.bin";
}};

&amba {{
	#address-cells = <2>;
	#size-cells = <2>;

	/* ports to memory of 128 bits */
	afi0: afi0 {{
		compatible = "xlnx,afi-fpga";
		config-afi = {ports};
	}};

	clocking0: clocking0 {{
		#clock-cells = <0>;
		compatible = "xlnx,fclk";
		clocks = <&zynqmp_clk {PL0_CLOCK}>;
		assigned-clocks = <&zynqmp_clk {PL0_CLOCK}>;
		assigned-clock-rates = <{round(mhz * 1e6)}>;
		clock-output-names = "fabric_clk";
	}};

	{name}: {name}@{REGISTERS_AT:x} {{
		compatible = "generic-uio";
		reg = <0x0 0x{REGISTERS_AT:x} 0x0 0x{REGISTERS_SIZE:x}>;
		interrupt-parent = <&gic>;
		interrupts = <0 {INTERRUPT} 4>;
		linux,uio-name = "{name}";
	}};

	udmabuf0: udmabuf0 {{
		compatible = "ikwzm,u-dma-buf";
		device-name = "udmabuf0";
		size = <0x{size:x}>;
	}};
}};
"""


def shell_json() -> str:
    """Write ``shell.json``: the whole fabric is the application's."""
    return json.dumps({"shell_type": "XRT_FLAT", "num_slots": "1"}, indent=2) + "\n"
