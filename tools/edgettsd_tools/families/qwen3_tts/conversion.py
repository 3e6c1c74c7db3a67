"""Conversion of a Qwen3-TTS checkpoint: all is checked when it is opened, then each part is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgettsd.errors import ModelInvalidError

from ...checkpoint import Floats
from ...progress import Progress
from . import layout
from .checkpoint import Checkpoint
from .describe import PUBLISHED_SAMPLING, Description, describe, license_of, manifest_of
from .frontend import copy_frontend

if TYPE_CHECKING:
    from ...convert import Options

CHUNKS = (1, 4, 8)


class Conversion:
    """An opened checkpoint that is known to be whole. See `edgettsd_tools.families.Conversion`."""

    def __init__(self, folder: Path, options: Options, note: Callable[[str], None]) -> None:
        self._options = options
        self._checkpoint = Checkpoint(folder, options.speech_tokenizer)
        try:
            self._open(note)
        except BaseException:
            self.close()
            raise

    def _open(self, note: Callable[[str], None]) -> None:
        checkpoint = self._checkpoint
        description = self._description = describe(checkpoint)
        if checkpoint.generation is None:
            chosen = ", ".join(f"{key} {value}" for key, value in PUBLISHED_SAMPLING.items())
            note(f"generation_config.json is missing: {chosen}")
        self._shapes = layout.talker_shapes(description.talker)
        checkpoint.model.check(self._shapes, ("speaker_encoder.",) if description.task == "base" else ())
        checkpoint.speech.check(layout.decoder_shapes(description.decoder), ("encoder.",))
        self._speakers = _speakers(description, self._options.voices)

    def close(self) -> None:
        """Close the checkpoint's files."""
        self._checkpoint.close()

    def write(self, partial: Path, name: str, source: Mapping[str, Any], quiet: bool) -> dict[str, Any]:
        """Write every file of the bundle but its manifest, which is returned without its table of files."""
        # Imported here, so that --help and refusals need none of the converter's own dependencies.
        from .decoder import build_decoder
        from .embeddings import write_embeddings
        from .gguf_lm import write_predictor, write_talker
        from .tokenizer_gguf import write_tokenizer

        checkpoint, description, options = self._checkpoint, self._description, self._options
        shapes, talker = self._shapes, description.talker
        precisions = {
            "talker": options.talker,
            "predictor": options.predictor,
            "embeddings": options.embeddings or ("f32" if options.talker == "f32" else "f16"),
        }
        model, speech = checkpoint.model, checkpoint.speech
        decoder_names = [entry for entry in speech.names() if entry.startswith("decoder.")]
        # The codec tables are read twice: as rows for the prompt and as the talker's own embedding.
        total = sum(map(model.nbytes, shapes)) + model.nbytes("talker.model.codec_embedding.weight")
        total += sum(map(speech.nbytes, decoder_names))
        with Progress(0 if quiet else total, "convert", always=not quiet) as bar:
            tokens = {f"{key}_token_id": value for key, value in description.tokens.items()}
            vocab = talker["text_vocab_size"]
            text_table = copy_frontend(checkpoint.folder, partial, vocab)
            if text_table is None:
                write_tokenizer(partial / "tokenizer.gguf", checkpoint.folder, vocab, tokens)
            arguments = (talker, shapes, model)
            write_talker(partial / "talker.gguf", *arguments, options.talker, name, bar.advance)
            write_predictor(partial / "predictor.gguf", *arguments, options.predictor, name, bar.advance)
            write_embeddings(
                partial / "embeddings.safetensors",
                talker,
                model,
                precisions["embeddings"],
                self._speakers,
                bar.advance,
            )
            seen: set[str] = set()

            def tensor(key: str) -> Floats:
                full = "decoder." + key
                if full not in seen:
                    seen.add(full)
                    bar.advance(speech.nbytes(full))
                return speech.read(full)

            try:
                decoder = build_decoder(
                    description.decoder, tensor, partial / "decoder.tflite", options.decoder, CHUNKS
                )
            except ValueError as error:
                raise ModelInvalidError(f"{checkpoint.speech_folder}: {error}") from error
            # What the decoder has no use for (the quantizers' input projections) is checked all the same.
            for full in decoder_names:
                if full not in seen:
                    speech.read(full)
                    bar.advance(speech.nbytes(full))
        manifest = manifest_of(
            checkpoint,
            description,
            name=name,
            license_name=license_of(checkpoint.folder) if options.license is None else options.license,
            precisions=precisions,
            decoder=decoder,
            rows=tuple(self._speakers),
            source=source,
        )
        if text_table is not None:
            manifest |= {"text": text_table, "supports_instruct": False}
        return manifest


def _speakers(description: Description, files: Mapping[str, Path]) -> dict[str, Floats]:
    """Load x-vectors [hidden] for voices of a Base checkpoint."""
    if files and description.task != "base":
        raise ModelInvalidError(f"--voice-embedding needs a base checkpoint, this one is {description.task}")
    hidden = description.talker["hidden_size"]
    speakers: dict[str, Floats] = {}
    for name, path in files.items():
        try:
            row = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ModelInvalidError(f"--voice-embedding {name}={path}: not a .npy file: {error}") from None
        shape = list(getattr(row, "shape", ()))
        if shape != [hidden] or row.dtype.kind != "f":
            raise ModelInvalidError(
                f"--voice-embedding {name}={path} has shape {shape} and type {row.dtype}, "
                f"floats of shape [{hidden}] are needed"
            )
        if not np.isfinite(row).all():
            raise ModelInvalidError(f"--voice-embedding {name}={path} holds NaN or infinity")
        speakers[name] = row.astype(np.float32)
    return speakers
