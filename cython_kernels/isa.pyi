VARIABLE: str
CHOICES: tuple[str, ...]

def own_isa() -> str:
    """How far products and attention of our own go: avx512-vnni, avx512 or generic.

    With generic, libllama and ggml compute. The environment variable EDGETTSD_ISA may ask for that; it counts
    as it was at the first question. Raises ValueError when its value is not known.
    """
