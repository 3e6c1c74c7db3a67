"""An official Qwen3-TTS checkpoint's folder: model, configuration and speech tokenizer."""

from __future__ import annotations

from pathlib import Path

from edgettsd.errors import ModelInvalidError

from ...checkpoint import TensorSet, optional_json, read_json


class Checkpoint:
    """An opened checkpoint folder; raises ModelInvalidError for what is missing or cannot be read.

    `speech_folder` is the speech tokenizer's: `speech_tokenizer` when it is given, otherwise the folder of
    that name inside. `generation` is None without a generation_config.json.
    """

    def __init__(self, folder: Path, speech_tokenizer: Path | None = None) -> None:
        if not folder.is_dir():
            raise ModelInvalidError(f"{folder} is not a folder")
        self.folder = folder
        self.speech_folder = speech_tokenizer or folder / "speech_tokenizer"
        if speech_tokenizer and not speech_tokenizer.is_dir():
            raise ModelInvalidError(f"--speech-tokenizer {speech_tokenizer} is not a folder")
        if not self.speech_folder.is_dir():
            raise ModelInvalidError(
                f"{self.speech_folder} is missing; --speech-tokenizer DIR names one elsewhere"
            )
        self.config = read_json(folder / "config.json")
        self.generation = optional_json(folder / "generation_config.json")
        self.speech_config = read_json(self.speech_folder / "config.json")
        self.model = TensorSet(folder)
        try:
            self.speech = TensorSet(self.speech_folder)
        except BaseException:
            self.model.close()
            raise

    def close(self) -> None:
        """Close the tensor files."""
        self.model.close()
        self.speech.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
