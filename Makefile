# The two commands: `make run` serves the default model with the console, `make test` runs the tests.
# Everything else is CMake; see docs/ARCHITECTURE.md.

BUILD ?= build
MODEL ?= smollm2-135m-instruct
PORT ?= 8420
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

.PHONY: all build run test test-full install deps test-deps package package-deps format tidy clean

all: build

# The stamps spare later runs the package manager's start-up time.
$(BUILD)/.deps: tools/install-deps.sh tools/packages-build.txt
	@tools/install-deps.sh tools/packages-build.txt
	@mkdir -p $(BUILD) && touch $@
$(BUILD)/.test-deps: tools/install-deps.sh tools/packages-test.txt
	@tools/install-deps.sh tools/packages-test.txt
	@mkdir -p $(BUILD) && touch $@
deps: $(BUILD)/.deps
test-deps: $(BUILD)/.deps $(BUILD)/.test-deps

# Only the program; tests are built by `make test`.
build: deps
	@test -f $(BUILD)/build.ninja || cmake --preset release -B $(BUILD) >/dev/null
	@cmake --build $(BUILD) --target ballast -j $(JOBS)

run: build
	@exec $(BUILD)/ballast serve $(MODEL) --port $(PORT)

test: test-deps build
	@tools/test.sh $(BUILD)

test-full: test
	@tools/test-full.sh $(BUILD)

$(BUILD)/.package-deps: tools/install-deps.sh tools/packages-package.txt
	@tools/install-deps.sh tools/packages-package.txt
	@mkdir -p $(BUILD) && touch $@
package-deps: $(BUILD)/.package-deps

# dist/: a tarball and a Debian package.
package: package-deps build
	@tools/package.sh $(BUILD)

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

format:
	@clang-format-19 -i $$(git ls-files '*.cc' '*.h')

tidy:
	@python3 tools/tidy.py

clean:
	@rm -rf $(BUILD)
