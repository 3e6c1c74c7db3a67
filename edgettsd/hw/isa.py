"""How far the kernels' own products go on this CPU; EDGETTSD_ISA in the environment may switch them off."""

from __future__ import annotations

from edgettsd.hw.profile import ProfileError


def own_isa() -> str:
    """avx512-vnni, avx512 or generic: with generic, libllama and ggml compute.

    Raises ProfileError when EDGETTSD_ISA is neither auto nor generic.
    """
    # Here, because tools/boards decides for other machines without compiled modules.
    from cython_kernels import isa

    try:
        return isa.own_isa()
    except ValueError as error:
        raise ProfileError(str(error)) from None
