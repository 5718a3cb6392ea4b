"""Files: tensors in safetensors, their description in the header, written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from aline.errors import CheckpointError

FORMAT = 1


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file so that a crash leaves the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_tensors(path: Path, tensors: Mapping[str, Tensor], card: Mapping[str, Any]) -> None:
    """One file with tensors and a JSON card in its header."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, **card})
    write_atomically(path, save(plain, metadata={"aline": text}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; a damaged, foreign or newer file gives a clear error."""
    card = read_card(path)
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, card  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): restore it or train again") from None


def read_card(path: Path) -> dict[str, Any]:
    """Only the card of a file."""
    if not path.is_file():
        raise CheckpointError(f"no weights at {path}: give the folder that model.save(...) wrote")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged ({error}): restore it or train again") from None
    if "aline" not in metadata:
        raise CheckpointError(f"{path} was not written by aline: its header has no card")
    card: dict[str, Any] = json.loads(metadata["aline"])
    if card.get("format", 0) > FORMAT:
        raise CheckpointError(
            f"{path} has format {card['format']}, this aline reads up to {FORMAT}: upgrade aline"
        )
    return card
