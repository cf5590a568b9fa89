#!/usr/bin/env python3
"""Times a workload's training step with wholestep and with other frameworks, alternately, on the same cores.

    bench/compare.py WORKLOAD [--device cpu] [--threads N] [--rounds N] [--seconds S] [--json]

Needs `make build` and scripts/bench-venv.sh. PyTorch takes part where it is installed. Each figure is the median over rounds
of a round's median step; the ratio is the peer's time divided by ours, so above 1 we are faster.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLI = ROOT / "build" / "wholestep"
PYTHON = ROOT / ".venv" / "bin" / "python"
PEERS = {"jax": "jax_step.py", "torch": "torch_step.py"}
WORKLOADS = ["mlp"]


def fail(message):
    sys.exit(f"compare.py: error: {message}")


def last_json(command):
    """Runs `command` and returns the JSON object on the last line of its output."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: exit status {done.returncode}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def can_import(module):
    command = [str(PYTHON), "-c", f"import {module}"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def parse_arguments(cores):
    parser = argparse.ArgumentParser(description="Times a training step with wholestep and with other frameworks.")
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--device", choices=["cpu"], default="cpu")
    parser.add_argument("--threads", type=int, default=len(cores), help=f"default: all {len(cores)} cores")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of measuring, each framework each round")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not 1 <= options.threads <= len(cores):
        parser.error(f"--threads {options.threads}: this process may use 1 to {len(cores)} cores")
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    return options


def main():
    cores = sorted(os.sched_getaffinity(0))
    options = parse_arguments(cores)
    if not CLI.exists():
        fail(f"{CLI} is missing: run `make build`")
    if not PYTHON.exists() or not can_import("jax"):
        fail("the peers are missing: run scripts/bench-venv.sh")
    # Whatever a framework decides about threads, it gets these cores and no others.
    os.sched_setaffinity(0, cores[: options.threads])

    common = [options.workload, "--threads", options.threads, "--seconds", options.seconds]
    commands = {"wholestep": [CLI, "bench", *common, "--device", options.device, "--json"]}
    for name, script in PEERS.items():
        if can_import(name):
            commands[name] = [PYTHON, ROOT / "bench" / "peers" / script, *common]

    times = {name: [] for name in commands}
    versions = {}
    for round_number in range(options.rounds):
        for name, command in commands.items():
            result = last_json(command)
            times[name].append(result["step_us_median"])
            versions[name] = result.get("version", "")
            print(f"round {round_number + 1}/{options.rounds}  {name:<10} {times[name][-1]:9.1f} us", file=sys.stderr)

    medians = {name: statistics.median(values) for name, values in times.items()}
    ours = medians.pop("wholestep")
    ratios = {name: value / ours for name, value in medians.items()}
    if options.json:
        print(json.dumps({"workload": options.workload, "device": options.device, "threads": options.threads,
                          "ours_us": ours, "peers": medians, "ratio": ratios}))
        return
    print(f"{options.workload}, {options.device}, {options.threads} threads, median of {options.rounds} rounds")
    print(f"  {'wholestep':<20} {ours:9.1f} us/step")
    for name, value in medians.items():
        print(f"  {name + ' ' + versions[name]:<20} {value:9.1f} us/step   {ratios[name]:5.2f} x ours")


if __name__ == "__main__":
    main()
