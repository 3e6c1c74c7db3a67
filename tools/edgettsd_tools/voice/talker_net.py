"""The talker for training: the official tensors, small, plus what training alone needs.

The text embedding is the sum of a first-half, a second-half and a pair term, so that pairs of phones that
never occurred have a sensible row too; `export_text` writes it out as the ordinary table.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from edgettsd.frontends.english.frames import PAIRS, SOUNDS, SPECIAL_IDS, SPECIALS
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
    dims: int = 64
    rope_theta: float = 10_000.0
    rms_eps: float = 1e-6
    dropout: float = 0.2

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
    """Text rows, talker and the head of code 0, all trained; codec rows and predictor follow from the codec.

    The talker's state says the sound itself: its first `dims` channels are the frame's principal components
    over `scale`, the next one is 1. A codec row is minus its entry over `scale`, so a state plus the rows
    of the codes chosen so far is what is still to be coded, and the predictor only has to add up and look
    for the nearest entry: see `export.predictor_tensors`.
    """

    def __init__(self, s: Sizes, books: Tensor) -> None:
        super().__init__()
        self.sizes = s
        self.first = nn.Embedding(len(SOUNDS), s.hidden)
        self.second = nn.Embedding(len(SOUNDS), s.hidden)
        self.pair = nn.Embedding(PAIRS, s.hidden)
        self.special = nn.Embedding(len(SPECIALS), s.hidden)
        attention = (s.heads, s.kv_heads, s.head_dim)
        self.talker = Transformer(s.hidden, s.layers, attention, s.ffn, s, s.dropout)
        self.head = nn.Linear(s.hidden, s.vocab, bias=False)
        self.register_buffer("books", books.clone())
        self.register_buffer("scale", books[0].pow(2).mean().sqrt())
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = "o_proj" in name or "down_proj" in name
                table = name.startswith(("first", "second", "special"))
                nn.init.normal_(parameter, std=0.3 if table else 0.02 if residual else 0.05)
        nn.init.zeros_(self.pair.weight)
        nn.init.zeros_(self.head.weight)
        # Minus the squared distance to each entry over its usual size, up to what is the same for all.
        spread = 0.1 * float(books[0].pow(2).sum(1).mean())
        with torch.no_grad():
            self.head.weight[: s.entries, : s.dims] = 2.0 * books[0] * self.scale / spread
            self.head.weight[: s.entries, s.dims] = -books[0].pow(2).sum(1) / spread

    def text(self, tokens: Tensor) -> Tensor:
        """Text rows [..., hidden] of token ids."""
        pairs = tokens.clamp(max=PAIRS - 1)
        rows = self.first(pairs // len(SOUNDS)) + self.second(pairs % len(SOUNDS)) + self.pair(pairs)
        special = self.special((tokens - PAIRS).clamp(min=0))
        return torch.where((tokens >= PAIRS)[..., None], special, rows)

    def export_text(self) -> Tensor:
        """The whole text table [VOCAB, hidden]."""
        return self.text(torch.arange(PAIRS + len(SPECIALS)))

    def fed_back(self, vectors: Tensor) -> Tensor:
        """Sum of codec rows [..., hidden] of the codes for principal components [..., dims]."""
        return fn.pad(-vectors / self.scale, (0, self.sizes.hidden - self.sizes.dims))

    def prompt(self, batch: int) -> Tensor:
        """Prompt rows [batch, n, hidden] before the first text token, as in the official streaming layout.

        The codec rows of control ids are zeros, so the language's tag makes no difference but one position
        more.
        """
        names = ["im_start", "assistant", "newline", *["tts_pad"] * 5, "tts_bos"]
        return self.text(torch.tensor([SPECIAL_IDS[name] for name in names]))[None].expand(batch, -1, -1)

    def sound(self, hidden: Tensor) -> Tensor:
        """Principal components [..., dims] that talker states [..., hidden] say."""
        return hidden[..., : self.sizes.dims] * self.scale

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def generate(self, tokens: list[Tensor], lead: int) -> list[Tensor]:
        """Codes [len(tokens) + lead, groups] of every text, all at once, by first choice."""
        s, batch = self.sizes, len(tokens)
        longest = max(len(t) for t in tokens)
        text = torch.full((batch, longest + lead + 1), SPECIAL_IDS["tts_pad"])
        for row, t in enumerate(tokens):
            text[row, : len(t)] = t
            text[row, len(t)] = SPECIAL_IDS["tts_eos"]
        rows = self.text(text)
        x = torch.cat((self.prompt(batch), rows[:, :1]), 1)
        cache: Cache = {}
        made: list[Tensor] = []
        for frame in range(longest + lead):
            hidden = self.talker(x, cache)[:, -1]
            codes = [(hidden @ self.head.weight[: s.entries].T).argmax(-1)]
            total = self.books[0][codes[0]]
            for book in self.books[1:]:
                rest = self.sound(hidden) - total
                codes.append((2.0 * rest @ book.T - book.pow(2).sum(1)).argmax(-1))
                total = total + book[codes[-1]]
            made.append(torch.stack(codes, 1))
            x = (self.fed_back(total) + rows[:, frame + 1])[:, None]
        whole = torch.stack(made, 1)
        return [whole[row, : len(t) + lead] for row, t in enumerate(tokens)]
