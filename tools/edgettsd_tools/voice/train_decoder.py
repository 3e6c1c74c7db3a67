"""Train the waveform decoder on frozen codes: spectral losses first, then adversarial if wanted."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as fn
from torch import Tensor

from edgettsd_tools.voice import vocoder
from edgettsd_tools.voice.codec import Codec
from edgettsd_tools.voice.data import Corpus
from edgettsd_tools.voice.decoder_net import Decoder, config_for
from edgettsd_tools.voice.features import FRAME, RATE, mel_filters
from edgettsd_tools.voice.interrupt import Asked

WINDOWS = (2048, 1024, 512, 256)
# Frames of a crop whose sound is not compared: the history before the crop is missing there.
SETTLING = 2
SAVE_SECONDS = 240.0


class SpectralLoss:
    """L1 of log magnitudes at several resolutions, of linear magnitudes, and of the log-mel bands."""

    def __init__(self) -> None:
        self._hann = {size: torch.hann_window(size) for size in WINDOWS}
        self._mel = torch.from_numpy(mel_filters()).T.contiguous()

    def _magnitude(self, audio: Tensor, size: int) -> Tensor:
        spectrum = torch.stft(audio, size, size // 4, window=self._hann[size], return_complex=True)
        power = spectrum.real**2 + spectrum.imag**2
        return torch.sqrt(power.transpose(1, 2) + 1e-8)

    def __call__(self, made: Tensor, true: Tensor) -> Tensor:
        total = made.new_zeros(())
        for size in WINDOWS:
            a, b = self._magnitude(made, size), self._magnitude(true, size)
            floor = 2e-3 * size**0.5
            total = (
                total
                + fn.l1_loss((a + floor).log(), (b + floor).log())
                + fn.l1_loss(a, b) / b.mean().clamp(min=0.1) * 0.3
            )
            if size == WINDOWS[1]:
                total = total + 2.0 * fn.l1_loss((a @ self._mel + 0.02).log(), (b @ self._mel + 0.02).log())
        return total


class Batches:
    """Random crops: codes [batch, groups, frames], samples [batch, frames * 1920]."""

    def __init__(self, corpus: Corpus, codec: Codec, crop: int, batch: int, seed: int) -> None:
        self._corpus, self._codec, self._crop, self._batch = corpus, codec, crop, batch
        self._rng = np.random.default_rng(seed)

    def next(self) -> tuple[Tensor, Tensor]:
        """One batch; a third of the crops has codes that are not the nearest, as a talker's are not."""
        lengths = np.array([len(c) for c in self._corpus.codes])
        picks = self._rng.choice(len(lengths), self._batch, p=lengths / lengths.sum())
        codes = np.zeros((self._batch, self._crop, self._codec.groups), np.int64)
        audio = np.zeros((self._batch, self._crop * FRAME), np.float32)
        silence = self._corpus.codes[0][0]
        for row, pick in enumerate(picks):
            count = int(lengths[pick])
            start = int(self._rng.integers(0, max(1, count - self._crop + 1)))
            stop = min(count, start + self._crop)
            part = self._corpus.codes[pick][start:stop]
            if self._rng.random() < 0.33:
                part = self._codec.encode(self._corpus.vectors[pick][start:stop], self._rng, 0.15)
            codes[row] = silence
            codes[row, : stop - start] = part
            sound = self._corpus.train[pick].audio[start * FRAME : stop * FRAME]
            audio[row, : len(sound)] = sound.astype(np.float32) / 32768.0
        return torch.from_numpy(codes.transpose(0, 2, 1).copy()), torch.from_numpy(audio)


def learn_vocoder(work: Path, minutes: float, *, batch: int = 10, rate: float = 2e-3, seed: int = 1) -> None:
    """Set the decoder's upper layers to the channel vocoder and teach the lower ones its amplitudes.

    Takes `minutes` of CPU time at once and writes work/decoder.pt, from which `train` goes on; an untrained
    one that is there already is taught on.
    """
    torch.manual_seed(seed)
    codec = Codec.load(work / "codec.npz")
    corpus = Corpus(work / "synth", codec, audio=False)
    model = Decoder(config_for(codec.groups, codec.entries))
    model.start_from(torch.from_numpy(codec.books))
    vocoder.install(model)
    path = work / "decoder.pt"
    if path.exists():
        before = torch.load(path, map_location="cpu", weights_only=False)
        if before["step"] == 0:
            model.load_state_dict(before["average"])
            seed += 1
    average = {k: v.clone() for k, v in model.state_dict().items()}
    parameters = vocoder.head_parameters(model)
    optimizer = torch.optim.AdamW(parameters, rate, betas=(0.9, 0.98), weight_decay=1e-3)
    rng = np.random.default_rng(seed)
    crop, step, losses = 24, 0, []
    started = time.process_time()
    # Codes beyond the first two are of little weight here; the codes of whole sentences are laid end to end.
    codes = np.concatenate(corpus.codes)
    vectors = np.concatenate(corpus.vectors)
    while (now := (time.process_time() - started) / 60) < minutes:
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50, max(0.03, 2.0 * (1.0 - now / minutes)))
        starts = rng.integers(0, len(codes) - crop, batch)
        rows = starts[:, None] + np.arange(crop)
        chosen = codes[rows]
        for index in range(batch // 3):
            chosen[index] = codec.encode(vectors[rows[index]], rng, 0.2)
        goal = [vocoder.amplitudes(codec.rows(c)).T for c in chosen]
        target = torch.from_numpy(np.stack(goal))
        made = vocoder.head(model, torch.from_numpy(chosen.transpose(0, 2, 1).copy()))
        skip = SETTLING * vocoder.STEPS
        wanted, spare = target[..., skip:], made[:, vocoder.CHANNELS :]
        error = (made[:, : vocoder.CHANNELS, skip:] - wanted).abs() / (wanted.abs() + 0.1)
        # Spectra are heard in decibels, signs and small amplitudes need the plain difference.
        levels = (made[:, : vocoder.CHANNELS, skip:].abs() + 0.02).log() - (wanted.abs() + 0.02).log()
        weight = 0.3 + wanted.abs() / (wanted.abs() + 0.3)
        loss = (levels.abs() * weight).mean() + 0.5 * error.mean() + 0.1 * spare.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        step += 1
        share = min(0.99, step / (step + 20))
        with torch.no_grad():
            for name, value in model.state_dict().items():
                average[name].lerp_(value, 1 - share)
        if step % 50 == 0:
            print(
                f"vocoder step {step}: loss {np.mean(losses[-50:]):.4f}, {now:.2f} of {minutes} CPU minutes",
                flush=True,
            )
    model.load_state_dict(average)
    save(
        path,
        {"config": model.config, "model": model.state_dict(), "average": average, "step": 0, "minutes": 0.0},
    )


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint whole or not at all."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    os.replace(partial, path)


def load_decoder(path: Path) -> Decoder:
    """The averaged decoder of a checkpoint."""
    state = torch.load(path, map_location="cpu", weights_only=False)
    model = Decoder(state["config"])
    model.load_state_dict(state["average"])
    return model.eval()  # type: ignore[no-any-return]


def train(
    work: Path,
    minutes: float,
    *,
    batch: int = 4,
    crop: int = 14,
    rate: float = 1e-3,
    decay: float = 0.3,
    seed: int = 1,
    adversarial: float = 1e9,
) -> None:
    """Train until `minutes` of CPU time in all runs together are spent; resumes from work/decoder.pt.

    The learning rate falls to a twentieth over the last `decay` of the time. From `adversarial` minutes on
    the discriminator takes part.
    """
    torch.manual_seed(seed)
    codec = Codec.load(work / "codec.npz")
    corpus = Corpus(work / "synth", codec)
    model = Decoder(config_for(codec.groups, codec.entries))
    model.start_from(torch.from_numpy(codec.books))
    average = {k: v.clone() for k, v in model.state_dict().items()}
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], rate, betas=(0.8, 0.98), weight_decay=1e-3
    )
    step, spent = 0, 0.0
    path = work / "decoder.pt"
    critic: Any = None
    if path.exists():
        state = torch.load(path, map_location="cpu", weights_only=False)
        model.load_state_dict(state["model"])
        if "optimizer" in state:
            optimizer.load_state_dict(state["optimizer"])
        average, step, spent = state["average"], state["step"], state["minutes"]
    else:
        state = {}
    batches = Batches(corpus, codec, crop, batch, seed + step)
    loss_of = SpectralLoss()
    started, saved, refreshed = time.process_time(), time.monotonic(), time.monotonic()
    sums: list[float] = []
    extra: list[float] = []
    asked = Asked()
    while True:
        now = spent + (time.process_time() - started) / 60
        if now >= minutes or asked:
            break
        left = (minutes - now) / (minutes * decay)
        factor = min(1.0, (step + 1) / 100, max(0.05, left))
        codes, audio = batches.next()
        keep = None
        if step % 4 == 0:
            keep = torch.randint(3, codec.groups + 1, (batch,))
        for group in optimizer.param_groups:
            group["lr"] = rate * factor * (0.4 if now >= adversarial else 1.0)
        made = model(codes, keep)
        skip = SETTLING * FRAME
        loss = loss_of(made[:, skip:], audio[:, skip:])
        sums.append(float(loss.detach()))
        if now >= adversarial:
            if critic is None:
                from edgettsd_tools.voice.critic import Critic

                critic = Critic(rate * 0.5, state.get("critic"))
            start = int(torch.randint(skip, made.shape[1] - RATE // 2 + 1, ()))
            window = slice(start, start + RATE // 2)
            gain, seen = critic.step(made[:, window], audio[:, window])
            loss = loss + gain
            extra.append(seen)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 20.0)
        optimizer.step()
        step += 1
        share = min(0.998, step / (step + 20))
        with torch.no_grad():
            for name, value in model.state_dict().items():
                average[name].lerp_(value, 1 - share)
        if step % 50 == 0:
            note = f" critic {np.mean(extra[-100:]):.3f}" if extra else ""
            print(
                f"decoder step {step}: loss {np.mean(sums[-100:]):.4f}{note}, "
                f"{now:.1f} of {minutes} CPU minutes, "
                f"{corpus.hours:.2f} h",
                flush=True,
            )
        if time.monotonic() - refreshed > 600:
            corpus.refresh()
            refreshed = time.monotonic()
        if time.monotonic() - saved > SAVE_SECONDS:
            saved = time.monotonic()
            _save(path, model, average, optimizer, critic, step, now)
    _save(path, model, average, optimizer, critic, step, now)


def _save(
    path: Path, model: Decoder, average: Any, optimizer: Any, critic: Any, step: int, spent: float
) -> None:
    state = {
        "config": model.config,
        "model": model.state_dict(),
        "average": average,
        "optimizer": optimizer.state_dict(),
        "step": step,
        "minutes": spent,
    }
    if critic is not None:
        state["critic"] = critic.state()
    save(path, state)
