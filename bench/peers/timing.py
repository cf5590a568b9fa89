"""What every peer does alike: command line, random batches of the workload, and timing step by step."""

import argparse
import json
import statistics
import time

import numpy


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=2.0)
    return parser.parse_args()


def mlp_batches(count=16, batch=64):
    random = numpy.random.default_rng(0)
    images = random.integers(0, 256, (count, batch, 784), dtype=numpy.uint8)
    labels = random.integers(0, 10, (count, batch), dtype=numpy.int32)
    return list(zip(images, labels))


def report(name, version, step, batches, seconds):
    """Calls `step(images, labels)`, which returns the loss as a float once the whole step is done."""
    for i in range(100):
        step(*batches[i % len(batches)])
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 20:
        batch = batches[len(times) % len(batches)]
        start = time.perf_counter()
        step(*batch)
        times.append(time.perf_counter() - start)
    print(json.dumps({"name": name, "version": version, "step_us_median": statistics.median(times) * 1e6}))
