#!/usr/bin/env python3
"""Writes tests/data/schedules.json: the factors that the schedules of Optax and PyTorch give at some steps.

    pip install optax torch && python tests/tools/make_schedule_values.py tests/data/schedules.json
"""

import json
import sys

import jax
import optax
import torch

jax.config.update("jax_enable_x64", True)

STEPS = [0, 1, 2, 9, 10, 11, 28, 29, 30, 31, 49, 50, 60, 77, 79, 80, 81, 98, 99, 100, 101, 250]
LAST = max(STEPS)

OPTAX = {
    "constant(value=0.25)": optax.constant_schedule(0.25),
    "linear(steps=30)": optax.linear_schedule(0.0, 1.0, 30),
    "linear(steps=80, from=1, to=0.25)": optax.linear_schedule(1.0, 0.25, 80),
    "cosine(steps=100)": optax.cosine_decay_schedule(1.0, 100),
    "cosine(steps=100, final=0.1)": optax.cosine_decay_schedule(1.0, 100, alpha=0.1),
    "cosine(steps=100, warmup=30, final=0.1)": optax.warmup_cosine_decay_schedule(0.0, 1.0, 30, 100, 0.1),
    "step(every=30, factor=0.5)": optax.exponential_decay(1.0, 30, 0.5, staircase=True),
    "wsd(steps=100, decay=20, warmup=10, final=0.05)": optax.join_schedules(
        [optax.linear_schedule(0.0, 1.0, 10), optax.constant_schedule(1.0), optax.linear_schedule(1.0, 0.05, 20)],
        [10, 80],
    ),
    "sequence(linear(steps=10, from=0.5), 10, cosine(steps=50), 60, step(every=20))": optax.join_schedules(
        [
            optax.linear_schedule(0.5, 1.0, 10),
            optax.cosine_decay_schedule(1.0, 50),
            optax.exponential_decay(1.0, 20, 0.1, staircase=True),
        ],
        [10, 60],
    ),
}


def torch_factors(make, last):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = make(optimizer)
    factors = []
    for _ in range(last + 1):
        factors.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(factors) <= last:
            schedule.step()
    return factors


TORCH = {
    "onecycle(steps=100)": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1.0, total_steps=100, cycle_momentum=False),
    "onecycle(steps=100, warmup=0.5, start=0.1, final=0.01)": lambda o: torch.optim.lr_scheduler.OneCycleLR(
        o, 1.0, total_steps=100, pct_start=0.5, div_factor=10.0, final_div_factor=10.0, cycle_momentum=False
    ),
    "step(every=10, factor=0.9)": lambda o: torch.optim.lr_scheduler.StepLR(o, 10, 0.9),
}


def main():
    cases = []
    for text, schedule in OPTAX.items():
        cases.append({"schedule": text, "steps": STEPS, "factors": [float(schedule(step)) for step in STEPS]})
    for text, make in TORCH.items():
        last = 99  # a OneCycleLR ends with its steps
        factors = torch_factors(make, last)
        steps = [step for step in STEPS if step <= last]
        cases.append({"schedule": text, "steps": steps, "factors": [factors[step] for step in steps]})
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(cases, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
