# The self-test, the example where there is one, and the device-tree overlay, which takes dtc.
CFLAGS ?= -O2 -Wall -Wextra
DRIVER := ../driver/fabtune.c ../driver/fabtune_text.c ../driver/fabtune_options.c ../driver/fabtune_uio.c
SOURCES := $(DRIVER) ../driver/fabtune_selftest.c ../driver/selftest_linux.c ../selftest/selftest.c
EXAMPLE := $(DRIVER) ../example/example.c ../example/example_CORE.c ../example/example_linux.c

all: selftest $(if $(wildcard ../example),example) CORE.dtbo

selftest: $(SOURCES) $(wildcard ../driver/*.h)
	$(CC) -std=c11 $(CFLAGS) -I../driver $(SOURCES) -o $@

example: $(EXAMPLE) $(wildcard ../driver/*.h ../example/*.h)
	$(CC) -std=c11 $(CFLAGS) -I../driver $(EXAMPLE) -o $@

%.dtbo: %.dts
	dtc -@ -q -O dtb -o $@ $<

clean:
	rm -f selftest example CORE.dtbo

.PHONY: all clean
