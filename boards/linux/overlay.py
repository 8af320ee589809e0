"""Device-tree overlay of a core, input of bootgen, and the application file of a Kria's ``xmutil loadapp``."""

from __future__ import annotations

import json

from ..vivado.ip import REGISTERS_AT

REGISTERS_SIZE = 0x1000
INTERRUPT = 89
"""Shared peripheral interrupt of line 0 of `pl_ps_irq0`."""
PL0_CLOCK = 71
"""Index of `pl_clk0` among the clocks of the processor's firmware."""
PORT_BITS = 128
"""Data width of the processor's ports to the fabric, as set by ``vivado/system.tcl``."""
MEMORY_WIDTHS = {128: 0, 64: 1, 32: 2}
"""Codes of a data width in ``AFIFMn_RDCTRL`` and ``AFIFMn_WRCTRL``, registers 2n and 2n + 1 of ``config-afi``."""
MANAGER_WIDTHS = {32: 0, 64: 1, 128: 2}
"""Codes of a data width in ``AFI_FS``, register 14 of ``config-afi``; the order differs from `MEMORY_WIDTHS`."""
_PAGE = 4096


def _port_widths() -> str:
    """Value of the property ``config-afi``: pairs of register and value."""
    values = [MEMORY_WIDTHS[PORT_BITS]] * 14
    # register 14: M_AXI_HPM0_FPD in bits 9:8, M_AXI_HPM1_FPD in 11:10; register 15: the unused M_AXI_HPM0_LPD in 9:8
    values += [MANAGER_WIDTHS[PORT_BITS] * (1 << 8 | 1 << 10), 0]
    return ", ".join(f"<{register} 0x{value:x}>" for register, value in enumerate(values))


def overlay(name: str, mhz: float, memory: int) -> str:
    """Device-tree source of the overlay of core ``name`` with firmware ``NAME.bit.bin`` and a requested clock in MHz.

    ``memory`` is the number of bytes that core and programs share; the u-dma-buf has this size, rounded up to pages.
    """
    size = -(-memory // _PAGE) * _PAGE
    return f"""\
/* {name}: registers and interrupt as a UIO device, a buffer for jobs as a u-dma-buf, its clock. Generated.
 * Compile it with linux/Makefile, which puts in the rate that Vivado reached and the label of the interrupt controller:
 * `gic`, or with INTERRUPT_PARENT=imux the other one that base trees have. */
/dts-v1/;
/plugin/;

&fpga_full {{
	/* no `resets`: of-fpga-region reads none. The firmware resets the fabric as it loads the bitstream */
	firmware-name = "{name}.bit.bin";
}};

&amba {{
	#address-cells = <2>;
	#size-cells = <2>;

	/* the port of registers and those to memory have {PORT_BITS} bits, as in the block design */
	afi0: afi0 {{
		compatible = "xlnx,afi-fpga";
		config-afi = {_port_widths()};
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
		/* not cached, but memory: memset and accesses that are not aligned are a bus error on a device */
		sync-mode = <2>;
	}};
}};
"""


def bif(name: str) -> str:
    """Input file of bootgen: the bitstream's path, relative to the package's folder."""
    return f"all: {{ [destination_device = pl] out/{name}.bit }}\n"


def shell_json() -> str:
    """``shell.json``: the application takes the whole fabric."""
    return json.dumps({"shell_type": "XRT_FLAT", "num_slots": "1"}, indent=2) + "\n"
