"""PyTorch's side of bench_cnn.py: seconds of one Adam step of NatureCNN, printed as JSON."""

from __future__ import annotations

import itertools
import json
import sys
import time

import numpy as np
import torch
from torch import nn


def main(batch: int, repeats: int, threads: int) -> None:
    torch.set_num_threads(threads)
    rng = np.random.default_rng(0)
    images = torch.as_tensor(rng.integers(0, 256, (batch, 4, 84, 84), dtype=np.uint8))
    labels = torch.as_tensor(np.eye(6, dtype=np.float32)[rng.integers(0, 6, batch)])
    seconds = {}
    forms = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
    for (name, form), fused in itertools.product(forms.items(), (False, True)):
        net = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6),
        ).to(memory_format=form)  # fmt: skip
        adam = torch.optim.Adam(net.parameters(), 1e-3, fused=fused)
        laps = []
        for _ in range(repeats + 3):
            began = time.perf_counter()
            seen = images.float().div_(255).to(memory_format=form)
            loss = -(labels * torch.log_softmax(net(seen), -1)).sum(-1).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            laps.append(time.perf_counter() - began)
        seconds[name + ", fused Adam" * fused] = laps[3:]
    print(json.dumps({"version": torch.__version__, "seconds": seconds}))


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:4]))
