# The self-test, the example if the package has one, and the device-tree overlay, which takes dtc.
#   make INTERRUPT_PARENT=imux     if /proc/device-tree/__symbols__ of the board has no gic
INTERRUPT_PARENT ?= gic
# hertz of the core's clock from Vivado's file; without the file the requested rate, which both sources contain
CLOCK_HZ := $(shell cat ../out/CORE.clock 2>/dev/null)
CFLAGS ?= -O2 -Wall -Wextra
DRIVER := ../driver/fabtune.c ../driver/fabtune_text.c ../driver/fabtune_options.c ../driver/fabtune_uio.c
SOURCES := $(DRIVER) ../driver/fabtune_selftest.c ../driver/selftest_linux.c ../selftest/selftest.c
EXAMPLE := $(DRIVER) ../example/example.c ../example/example_CORE.c ../example/example_linux.c

all: selftest $(if $(wildcard ../example),example) CORE.dtbo

selftest: $(SOURCES) $(wildcard ../driver/*.h ../out/CORE.clock)
	$(CC) -std=c11 $(CFLAGS) $(CLOCK_HZ:%=-DFABTUNE_CLOCK_HZ=%u) -I../driver $(SOURCES) -o $@

example: $(EXAMPLE) $(wildcard ../driver/*.h ../example/*.h)
	$(CC) -std=c11 $(CFLAGS) -I../driver $(EXAMPLE) -o $@

# always rebuilt: depends on the variables
CORE.dtbo: CORE.dts
	sed -e 's/interrupt-parent = <&gic>/interrupt-parent = <\&$(INTERRUPT_PARENT)>/' \
		$(CLOCK_HZ:%=-e 's/assigned-clock-rates = <.*>/assigned-clock-rates = <%>/') $< | dtc -@ -q -I dts -O dtb -o $@ -

clean:
	rm -f selftest example CORE.dtbo

.PHONY: all clean CORE.dtbo
