"""Talker and code predictor for training: the official tensors, small, plus what training alone needs.

The text embedding is the sum of a first-half, a second-half and a pair term, so that pairs of phones that
never occurred have a sensible row too; `export_text` writes it out as the ordinary table.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from edgettsd.text.english.frames import PAIRS, SPECIAL_IDS, SPECIALS
from edgettsd.text.english.phones import PHONES
from edgettsd_tools.voice.decoder_net import Linear, Mlp, RMSNorm, rope, rotate

# Codec ids after the entries, in this order; the official code never generates the last 1024 ids but `eos`.
CODEC_SPECIALS = ("pad", "bos", "eos", "think", "nothink", "think_bos", "think_eos", "english", "joe")
RESERVED = 1024


@dataclass(frozen=True)
class Sizes:
    """Sizes of both networks."""

    groups: int
    entries: int
    hidden: int = 192
    layers: int = 6
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 48
    ffn: int = 576
    small: int = 192
    small_layers: int = 3
    small_heads: int = 4
    small_kv_heads: int = 2
    small_head_dim: int = 48
    small_ffn: int = 512
    dims: int = 64
    rope_theta: float = 10_000.0
    rms_eps: float = 1e-6
    dropout: float = 0.1

    @property
    def vocab(self) -> int:
        """Codec vocabulary of codebook 0."""
        return self.entries + RESERVED

    def special(self, name: str) -> int:
        """Codec id of a name of CODEC_SPECIALS."""
        return self.entries + CODEC_SPECIALS.index(name)

    def table(self) -> dict[str, Any]:
        """As a plain table."""
        return asdict(self)


Cache = dict[int, tuple[Tensor, Tensor]]


class Attention(nn.Module):
    """Grouped-query attention with normed queries and keys."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, dim: int, eps: float) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, dim
        self.q_proj = Linear(hidden, heads * dim)
        self.k_proj = Linear(hidden, kv_heads * dim)
        self.v_proj = Linear(hidden, kv_heads * dim)
        self.o_proj = Linear(heads * dim, hidden)
        self.q_norm, self.k_norm = RMSNorm(dim, eps), RMSNorm(dim, eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None, key: int) -> Tensor:
        batch, length, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(batch, length, self.heads, self.dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(batch, length, self.kv_heads, self.dim)).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        causal = True
        if cache is not None:
            if key in cache:
                k, v = torch.cat((cache[key][0], k), 2), torch.cat((cache[key][1], v), 2)
                causal = False
            cache[key] = (k, v)
        repeat = self.heads // self.kv_heads
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        y = fn.scaled_dot_product_attention(q, k, v, is_causal=causal and length > 1)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))  # type: ignore[no-any-return]


class Layer(nn.Module):
    """Qwen3 layer."""

    def __init__(
        self, hidden: int, attention: tuple[int, int, int], ffn: int, eps: float, dropout: float
    ) -> None:
        super().__init__()
        self.self_attn = Attention(hidden, *attention, eps)
        self.mlp = Mlp(hidden, ffn)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(hidden, eps), RMSNorm(hidden, eps)
        self.dropout = dropout

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None, key: int) -> Tensor:
        y = self.self_attn(self.input_layernorm(x), cos, sin, cache, key)
        x = x + fn.dropout(y, self.dropout, self.training)
        y = self.mlp(self.post_attention_layernorm(x))
        return x + fn.dropout(y, self.dropout, self.training)


class Transformer(nn.Module):
    """Causal Qwen3 transformer over embeddings [batch, length, hidden]; its output is normed."""

    def __init__(
        self, hidden: int, layers: int, attention: tuple[int, int, int], ffn: int, s: Sizes, dropout: float
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(hidden, attention, ffn, s.rms_eps, dropout) for _ in range(layers))
        self.norm = RMSNorm(hidden, s.rms_eps)
        self._dim, self._theta = attention[2], s.rope_theta

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        before = cache[0][0].shape[2] if cache else 0
        cos, sin = rope(before + x.shape[1], self._dim, self._theta)
        for key, layer in enumerate(self.layers):
            x = layer(x, cos[before:], sin[before:], cache, key)
        return self.norm(x)  # type: ignore[no-any-return]


class Model(nn.Module):
    """All that is trained: text rows, codec rows, talker, predictor, a helper that regresses the sound."""

    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.sizes = s
        self.first = nn.Embedding(len(PHONES), s.hidden)
        self.second = nn.Embedding(len(PHONES), s.hidden)
        self.pair = nn.Embedding(PAIRS, s.hidden)
        self.special = nn.Embedding(len(SPECIALS), s.hidden)
        self.codec = nn.ModuleList(
            nn.Embedding(s.vocab if group == 0 else s.entries, s.hidden) for group in range(s.groups)
        )
        attention = (s.heads, s.kv_heads, s.head_dim)
        self.talker = Transformer(s.hidden, s.layers, attention, s.ffn, s, s.dropout)
        self.head = nn.Linear(s.hidden, s.vocab, bias=False)
        attention = (s.small_heads, s.small_kv_heads, s.small_head_dim)
        self.predictor = Transformer(s.small, s.small_layers, attention, s.small_ffn, s, 0.0)
        self.project = nn.Linear(s.hidden, s.small) if s.small != s.hidden else nn.Identity()
        self.heads = nn.ModuleList(Linear(s.small, s.entries) for _ in range(s.groups - 1))
        self.helper = nn.Linear(s.hidden, s.dims)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                scale = (
                    0.02 if "layers." not in name or not ("o_proj" in name or "down_proj" in name) else 0.01
                )
                nn.init.normal_(
                    parameter, std=0.05 if name.startswith(("first", "second", "special")) else scale
                )
        nn.init.zeros_(self.pair.weight)

    def text(self, tokens: Tensor) -> Tensor:
        """Text rows [..., hidden] of token ids."""
        pairs = tokens.clamp(max=PAIRS - 1)
        rows = self.first(pairs // len(PHONES)) + self.second(pairs % len(PHONES)) + self.pair(pairs)
        special = self.special((tokens - PAIRS).clamp(min=0))
        return torch.where((tokens >= PAIRS)[..., None], special, rows)

    def export_text(self) -> Tensor:
        """The whole text table [VOCAB, hidden]."""
        return self.text(torch.arange(PAIRS + len(SPECIALS)))

    def frames(self, codes: Tensor) -> Tensor:
        """Sum of codec rows [..., hidden] of codes [..., groups]."""
        total = self.codec[0](codes[..., 0])
        for group in range(1, self.sizes.groups):
            total = total + self.codec[group](codes[..., group])
        return total  # type: ignore[no-any-return]

    def prompt(self, batch: int, named_language: bool) -> Tensor:
        """Prompt rows [batch, n, hidden] before the first text token, as in the official streaming layout."""
        s = self.sizes
        tags = (
            ["think", "think_bos", "english", "think_eos"]
            if named_language
            else ["nothink", "think_bos", "think_eos"]
        )
        codec = self.codec[0](torch.tensor([s.special(name) for name in (*tags, "joe", "pad")]))
        names = ["tts_pad"] * (len(codec) - 1) + ["tts_bos"]
        head = self.text(torch.tensor([SPECIAL_IDS[name] for name in ("im_start", "assistant", "newline")]))
        rows = codec + self.text(torch.tensor([SPECIAL_IDS[name] for name in names]))
        return torch.cat((head, rows))[None].expand(batch, -1, -1)

    def predict(self, hidden: Tensor, codes: Tensor) -> list[Tensor]:
        """Logits [frames, entries] of codes 1.. of talker states [frames, hidden], codes [frames, groups]."""
        rows = [hidden, *(self.codec[g](codes[:, g]) for g in range(self.sizes.groups - 1))]
        out = self.predictor(self.project(torch.stack(rows, 1)))
        return [head(out[:, g + 1]) for g, head in enumerate(self.heads)]

    @torch.no_grad()
    def generate(
        self, tokens: list[Tensor], pick: Any, limit: int = 40, named_language: bool = True
    ) -> list[Tensor]:
        """Codes [frames, groups] of every text, all at once; `pick(logits, group, history)`: ids [batch].

        Ends at the end of speech, or `limit` frames after the text. The leading frames are kept.
        """
        s, batch = self.sizes, len(tokens)
        longest = max(len(t) for t in tokens)
        text = torch.full((batch, longest + limit + 1), SPECIAL_IDS["tts_pad"])
        for row, t in enumerate(tokens):
            text[row, : len(t)] = t
            text[row, len(t)] = SPECIAL_IDS["tts_eos"]
        rows = self.text(text)
        bos = self.codec[0](torch.tensor([s.special("bos")]))
        x = torch.cat((self.prompt(batch, named_language), (rows[:, 0] + bos)[:, None]), 1)
        cache: Cache = {}
        made: list[Tensor] = []
        ended = torch.full((batch,), -1)
        banned = torch.ones(s.vocab, dtype=torch.bool)
        banned[: s.entries] = False
        banned[s.special("eos")] = False
        for frame in range(longest + limit):
            hidden = self.talker(x, cache)[:, -1]
            logits = self.head(hidden).masked_fill(banned, -1e9)
            first = pick(logits, 0, made)
            ended = torch.where((ended < 0) & (first == s.special("eos")), torch.tensor(frame), ended)
            ended = torch.where(
                (ended < 0) & (torch.tensor([len(t) for t in tokens]) + limit <= frame),
                torch.tensor(frame),
                ended,
            )
            if (ended >= 0).all():
                break
            codes = first.clamp(max=s.entries - 1)[:, None]
            small: Cache = {}
            step = self.project(torch.stack((hidden, self.codec[0](codes[:, 0])), 1))
            for group in range(1, s.groups):
                out = self.predictor(step, small)[:, -1]
                chosen = pick(self.heads[group - 1](out), group, made)
                codes = torch.cat((codes, chosen[:, None]), 1)
                if group < s.groups - 1:
                    step = self.project(self.codec[group](chosen)[:, None])
            made.append(codes)
            x = (self.frames(codes) + rows[:, frame + 1])[:, None]
        whole = torch.stack(made, 1)
        return [whole[row, : int(end) if end >= 0 else None] for row, end in enumerate(ended)]


def greedy(logits: Tensor, group: int, history: list[Tensor]) -> Tensor:
    """The likeliest id."""
    return logits.argmax(-1)
