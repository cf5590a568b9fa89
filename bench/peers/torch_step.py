"""The workload's training step in PyTorch, eager, with its fused AdamW where it has one for the CPU."""

import timing

options = timing.arguments()

import torch


def main():
    if options.workload != "mlp":
        raise SystemExit(f"torch_step.py: no workload {options.workload!r}; there is: mlp")
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    criterion = torch.nn.CrossEntropyLoss()
    settings = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    try:
        optimizer = torch.optim.AdamW(model.parameters(), fused=True, **settings)
    except (RuntimeError, TypeError):
        optimizer = torch.optim.AdamW(model.parameters(), **settings)

    def one_step(images, labels):
        optimizer.zero_grad(set_to_none=True)
        logits = model(torch.from_numpy(images).float() / 255.0)
        labels = torch.from_numpy(labels).long()
        loss = criterion(logits, labels)
        (logits.argmax(dim=1) == labels).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    timing.report("torch", torch.__version__, one_step, timing.mlp_batches(), options.seconds)


main()
