# The self-test and the device-tree overlay, which takes dtc.
CFLAGS ?= -O2 -Wall -Wextra
SOURCES := ../driver/fabtune.c ../driver/fabtune_uio.c ../driver/fabtune_selftest.c ../driver/selftest_linux.c \
	../selftest/selftest.c

all: selftest CORE.dtbo

selftest: $(SOURCES) $(wildcard ../driver/*.h)
	$(CC) -std=c11 $(CFLAGS) -I../driver $(SOURCES) -o $@

%.dtbo: %.dts
	dtc -@ -q -O dtb -o $@ $<

clean:
	rm -f selftest CORE.dtbo

.PHONY: all clean
