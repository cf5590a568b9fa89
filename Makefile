# make demo   install what is missing, build, and train a network on Fashion-MNIST
# make test   install what is missing, build, and run every test, then again under sanitizers
JOBS ?= $(shell nproc)
DATA ?= /usr/share/datasets/fashion-mnist
PREFIX ?= /usr/local

.PHONY: all setup build demo test test-release test-debug test-tsan bench format lint install clean
all: build

setup:
	@scripts/setup.sh

build: setup
	cmake --preset release
	cmake --build --preset release --parallel $(JOBS)

demo: build
	build/wholestep train mlp --data $(DATA) --epochs 10 --lr 0.002 --schedule cosine --save build/fashion-mlp.safetensors

# The sanitizer build runs the same tests; those that repeat something many times do so less often.
test: test-release test-debug
	@echo "All tests passed: release build, and debug build with address and undefined-behaviour sanitizers."

test-release: build
	ctest --preset release --parallel $(JOBS)

test-debug: setup
	cmake --preset debug
	cmake --build --preset debug --parallel $(JOBS)
	ctest --preset debug --parallel $(JOBS)

test-tsan: setup
	cmake --preset tsan
	cmake --build --preset tsan --parallel $(JOBS)
	ctest --preset tsan --parallel $(JOBS)

bench: build
	scripts/bench-venv.sh
	bench/compare.py mlp

format:
	git ls-files '*.cpp' '*.h' | xargs clang-format-19 -i

lint: build
	git ls-files '*.cpp' '*.h' | xargs clang-format-19 --dry-run -Werror
	git ls-files 'src/*.cpp' 'tools/*.cpp' | xargs -P $(JOBS) -n 4 clang-tidy-19 -p build --quiet

install: build
	cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build build-debug build-tsan
