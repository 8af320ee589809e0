# Tests in cocotb, with cocotb's own Makefiles and their variables: https://docs.cocotb.org/en/stable/building.html
# This folder's Makefile calls it with the paths of the tools; so can yours: eval "$(fabtune doctor --env)".

comma := ,
empty :=
TOPLEVEL_LANG := verilog
COCOTB_TOPLEVEL := @TOP@
VERILOG_SOURCES := $(wildcard ../ip/src/*.v)
COCOTB_TEST_MODULES ?= $(subst $(empty) $(empty),$(comma),$(basename $(wildcard test_*.py)))
SIM_BUILD := $(BUILD)/cocotb-$(SIM)$(WITH)
COCOTB_PLUSARGS += +@POWER_UP@=$(POWER_UP)
COCOTB_RESULTS_FILE := results-$(SIM).xml

ifeq ($(SIM),verilator)
COMPILE_ARGS += -Wno-fatal -Wno-style -Wno-SYMRSVDWORD --output-split 60000
# a bench spends its time in Python
BUILD_ARGS += -j 2 OPT_FAST=-O0
ifneq ($(WITH),)
COMPILE_ARGS += --trace
SIM_ARGS += --trace
endif
endif

include $(shell cocotb-config --makefiles)/Makefile.sim

# cocotb exposes every net of the core to a bench, which then compiles for minutes: make ALL_NETS=1 if yours needs them
ifeq ($(SIM)$(ALL_NETS),verilator)
COMPILE_ARGS := $(filter-out --public-flat-rw,$(COMPILE_ARGS)) ports.vlt
endif
