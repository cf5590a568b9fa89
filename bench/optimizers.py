#!/usr/bin/env python3
"""Accuracy and cost of every optimizer on the 784-128-10 classifier, as a Markdown table.

    bench/optimizers.py [--data FOLDER] [--epochs N] [--least PERCENT] [--seconds S] [--threads N] [NAME ...]

Accuracy: Fashion-MNIST after N epochs with the learning rate below, falling to zero along a cosine (constant for the
schedule-free one). An optimizer that falls short of the least one is named, and the exit status is 1. Step: `wholestep
bench mlp`, median; share: step divided by a program that computes the gradients alone.
"""

import argparse
import json
import pathlib
import subprocess
import sys

WHOLESTEP = pathlib.Path(__file__).resolve().parent.parent / "build" / "wholestep"

LEARNING_RATES = {
    "sgd": 0.2,
    "adam": 2e-3,
    "adamw": 2e-3,
    "nadamw": 2e-3,
    "radam": 2e-3,
    "qhadamw": 2e-3,
    "lamb": 1e-2,
    "adafactor": 3e-2,
    "lion": 3e-4,
    "soap": 2e-3,
    "kron": 5e-4,
    "muon": 5e-3,
    "sophia": 5e-4,
    "mars": 2e-3,
    "schedule_free_adamw": 2.5e-3,
}


def run(*arguments):
    done = subprocess.run([WHOLESTEP, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="optimizers (default: all)")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--least", type=float, default=85, metavar="PERCENT", help="accuracy expected of each (85)")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()

    print(f"| optimizer | learning rate | accuracy, {options.epochs} epochs | step | share |")
    print("|---|---|---|---|---|")
    failed = False
    for name in options.names or LEARNING_RATES:
        lr = LEARNING_RATES[name]
        try:
            trained = run("train", "mlp", "--data", options.data, "--optimizer", name, "--lr", lr, "--epochs",
                          options.epochs, "--schedule", "constant" if name.startswith("schedule_free") else "cosine",
                          "--threads", options.threads, "--json")
            timed = run("bench", "mlp", "--optimizer", name, "--seconds", options.seconds, "--threads",
                        options.threads, "--json")
        except RuntimeError as error:
            print(f"| {name} | {lr} | {error} | | |")
            failed = True
            continue
        accuracy = 100 * trained["test_accuracy"]
        print(f"| {name} | {lr} | {accuracy:.2f} % | {timed['step_us_median']:.0f} us | "
              f"{timed['step_us_median'] / timed['grads_only_us']:.2f} |", flush=True)
        if accuracy < options.least:
            print(f"{name}: {accuracy:.2f} % is less than {options.least:g} %", file=sys.stderr)
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
