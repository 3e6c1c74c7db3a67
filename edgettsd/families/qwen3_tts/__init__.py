"""The Qwen3-TTS family: prompt layouts, tokenizer and sampling defaults."""

from edgettsd.families.plan import LoopSampling

from .prompt import LAYOUTS, Prompt, PromptBuilder
from .sampling import Sampling
from .tokenizer import TextTokenizer

__all__ = ["LAYOUTS", "LoopSampling", "Prompt", "PromptBuilder", "Sampling", "TextTokenizer"]
