"""A small spectrum discriminator: what spectral losses leave blurred, it learns to tell from speech."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

SIZES = (512, 1024)
CHANNELS = 16
# Weights of its verdict and of its inner features beside the spectral losses.
VERDICT, FEATURES = 0.5, 2.0


class Discriminator(nn.Module):
    """Strided convolutions over the complex spectrum at one resolution; returns every layer's output."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._hann = torch.hann_window(size)
        self.layers = nn.ModuleList(
            [
                nn.Conv2d(2, CHANNELS, (3, 9), padding=(1, 4), stride=(1, 2)),
                nn.Conv2d(CHANNELS, CHANNELS, (3, 9), padding=(1, 4), stride=(2, 2)),
                nn.Conv2d(CHANNELS, 2 * CHANNELS, (3, 9), padding=(1, 4), stride=(2, 2)),
                nn.Conv2d(2 * CHANNELS, 2 * CHANNELS, (3, 3), padding=1),
                nn.Conv2d(2 * CHANNELS, 1, (3, 3), padding=1),
            ]
        )

    def forward(self, audio: Tensor) -> list[Tensor]:
        spectrum = torch.stft(audio, self._size, self._size // 4, window=self._hann, return_complex=True)
        # The cube root lets quiet parts count.
        spectrum = spectrum / (spectrum.abs() + 1e-3) ** (2 / 3)
        x = torch.view_as_real(spectrum).permute(0, 3, 2, 1)
        out = []
        for index, layer in enumerate(self.layers):
            x = layer(x)
            if index + 1 < len(self.layers):
                x = fn.leaky_relu(x, 0.1)
            out.append(x)
        return out


class Critic:
    """The discriminators with their optimizer."""

    def __init__(self, rate: float, state: dict[str, Any] | None) -> None:
        self._nets = nn.ModuleList(Discriminator(size) for size in SIZES)
        self._optimizer = torch.optim.AdamW(self._nets.parameters(), rate, betas=(0.8, 0.98))
        if state:
            self._nets.load_state_dict(state["nets"])
            self._optimizer.load_state_dict(state["optimizer"])

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"nets": self._nets.state_dict(), "optimizer": self._optimizer.state_dict()}

    def step(self, made: Tensor, true: Tensor) -> tuple[Tensor, float]:
        """Train on audio [batch, samples]; returns the generator's extra loss and the critic's own loss."""
        own: Any = 0.0
        for net in self._nets:
            own = own + (1 - net(true)[-1]).relu().mean() + (1 + net(made.detach())[-1]).relu().mean()
        self._optimizer.zero_grad()
        own.backward()
        self._optimizer.step()
        gain: Any = 0.0
        for net in self._nets:
            with torch.no_grad():
                wanted = net(true)
            found = net(made)
            gain = gain - VERDICT * found[-1].mean()
            for a, b in zip(found[:-1], wanted[:-1], strict=True):
                gain = gain + FEATURES * fn.l1_loss(a, b) / len(wanted)
        return gain, float(own.detach()) / len(self._nets)
