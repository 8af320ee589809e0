# make demo and make test need Python 3.11 or newer, make and g++; the rest goes into .venv
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
# it asks for an older library than mypy does
TCLINT := .venv/tclint/bin/tclint
DOCS_INSTALLED := .venv/docs-installed
# a file's tests stay in one process: they share what they set up; files begin in the order of tests/conftest.py.
# threads of BLAS wait for each other with a processor each, of which there is one a process
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -p no:benchmark

# bytecode is kept, of what is imported: a tenth of what pip would compile, which it is told to leave
unexport PYTHONDONTWRITEBYTECODE
PIP_OPTIONS := --no-compile --quiet --disable-pip-version-check
# uv installs in less than half of pip's time; it is told of pip's settings those with which it would fail, or load CUDA
FIND_LINKS = $${PIP_FIND_LINKS:-$$($(BIN)/python -m pip config get global.find-links 2>/dev/null)}
UV = UV_FIND_LINKS="$${UV_FIND_LINKS:-$(FIND_LINKS)}" UV_INDEX="$${UV_INDEX:-$$PIP_EXTRA_INDEX_URL}" \
	UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-https://pypi.org/simple}}" \
	UV_INDEX_STRATEGY=unsafe-best-match $(BIN)/uv pip install --quiet
# $(call install,ENVIRONMENT,PACKAGES): with uv, and where it fails with pip, which reads all of its settings
install = @echo "installing into $(1)"; $(UV) --python $(1)/bin/python $(2) || \
	$(BIN)/python -m pip --python $(1)/bin/python install $(PIP_OPTIONS) $(2)

.PHONY: demo test test-full prove mutate bench lint style types docs docs-api clean

demo: $(INSTALLED)
	$(BIN)/fabtune demo

# types are checked by a test, beside the others
test: style
	$(PYTEST)

test-full: style
	$(PYTEST) -m ""

# every rule of every block, for all inputs
prove: $(INSTALLED)
	$(BIN)/fabtune prove --seconds 600

# single faults in the RTL of the blocks; what was found out already is kept in build/mutation. grng has rare numbers
MUTATED := urng scale pool perturb gaussian_array pezo nf4_quant nf4_dequant sparse_add softmax celoss mseloss \
	loss_difference mse_difference coefficient axi_write axi_registers
# parts that are proved, with rules that fix all outputs
MUTATED_PARTS := rounding bursts
# these simulate for long: smaller ones, and fewer words
MUTATED_LARGE := "axi_read burst=4 depth=8" "tile lanes=4" "weight_path lanes=8 index_bits=10" "mac lanes=16 columns=1 terms=16" \
	"fc inputs=33 outputs=9 columns=2 lanes=16 activation=none" "conv channels=5 height=6 width=7 padding=0 outputs=9 columns=2 lanes=16" \
	"depthwise channels=18 height=3 width=3 lanes=16 columns=2" \
	"adapter inputs=37 classes=3 batch=2 lanes=16 columns=2 rank=2" \
	"pool_head lanes=8 columns=4 rows=64 wide_rows=128 sums=16" "linear_sequencer sums=4" \
	"rotary lanes=8 columns=4 rows=512 wide_rows=128 sums=16 width=32" "array_path lanes=8 columns=4 sums=8 queries=4" \
	"norm_path lanes=16 columns=4 rows=1024 wide_rows=256 sums=32 norm_lanes=4 features=40" \
	"tile_stream lanes=16 columns=4 depth=16 burst=4 correction_depth=4" "tensor_sequencer lanes=8 columns=32 numbers=5 tables=2" \
	"value_path lanes=8 columns=4 rows=256 wide_rows=128 features=32 sums=16" \
	"sample_loader lanes=16 columns=8 rows=200 wide_rows=100 sums=16"
# small, and it fills the lanes; one stage has negative outputs
MUTATED_NETWORK := 1x6x6 conv16k3p1 relu pool2 conv8k2 relu flatten fc28 fc10
mutate: $(INSTALLED)
	@failed=; for block in $(MUTATED) $(MUTATED_PARTS); do \
	$(BIN)/fabtune mutate $$block --faults 40 --seconds 20 || failed="$$failed $$block"; done; \
	$(BIN)/fabtune mutate grng --faults 40 --words 10000 --seconds 20 || failed="$$failed grng"; \
	for one in $(MUTATED_LARGE); do set -- $$one; block=$$1; shift; settings=; \
	for setting in "$$@"; do settings="$$settings --set $$setting"; done; \
	$(BIN)/fabtune mutate $$block $$settings --faults 40 --words 200 --seconds 20 || failed="$$failed $$block"; done; \
	$(BIN)/fabtune mutate zotrain --set "network=$(MUTATED_NETWORK)" --set lanes=16 --set cut_rows=72 --faults 400 || \
	failed="$$failed zotrain"; \
	$(BIN)/fabtune mutate instantft --set "network=$(MUTATED_NETWORK)" --set lanes=16 --set batch=4 \
	--set cache_entries=64 --faults 400 || failed="$$failed instantft"; \
	$(BIN)/fabtune mutate; \
	test -z "$$failed" || { echo "not all faults are seen:$$failed"; exit 1; }

bench: $(INSTALLED)
	$(BIN)/pytest tests/bench

lint: style types

style: $(INSTALLED) $(TCLINT)
	$(BIN)/ruff check .
	$(TCLINT) boards tests
	$(BIN)/ruff format --check .
	$(BIN)/python docs/sentences.py README.md CONTRIBUTING.md CHANGELOG.md docs
	$(BIN)/python docs/words.py

types: $(INSTALLED)
	mkdir -p build/typing && ln -sfn ../.. build/typing/fabtune
	$(BIN)/mypy --strict -p fabtune.golden -p fabtune.hw -p fabtune.sim -p fabtune.boards -p fabtune.mutation -p fabtune.scripts

# the root is the source folder, so that links mean the same on a forge
SPHINX := $(BIN)/python -m sphinx -W --keep-going -q -j auto -c docs
docs: $(DOCS_INSTALLED)
	$(BIN)/python docs/diagrams.py
	$(SPHINX) -d build/doctrees . build/docs

# the same with the reference made from the docstrings, which is written anew
docs-api: $(DOCS_INSTALLED)
	rm -rf docs/api
	$(BIN)/python docs/diagrams.py
	$(SPHINX) -t api -d build/doctrees-api . build/docs

$(DOCS_INSTALLED): $(INSTALLED)
	$(call install,.venv,--editable ".[docs]")
	touch $@

$(TCLINT): | $(INSTALLED)
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .venv/tclint || $(PYTHON) -m venv .venv/tclint
	$(call install,.venv/tclint,"tclint~=0.9.0")

$(INSTALLED): pyproject.toml setup.py
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'fabtune needs Python 3.11 or newer: make PYTHON=...')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install $(PIP_OPTIONS) "uv>=0.9"
	$(call install,.venv,--editable ".[dev]")
	touch $@

clean:
	rm -rf .venv build dist docs/api *.egg-info
