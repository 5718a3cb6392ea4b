"""Files: tensors in safetensors, their description in the header, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from aline.errors import CheckpointError

FORMAT = 1
DEEPEST = 100  # levels of a card; a model that was trained further has one for each time


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What fails within names this file: Python leaves that out where a disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file so that a crash leaves the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with naming(path), os.fdopen(handle, "wb") as file:
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
    metadata = {"aline": text, "sha256": _checksum(text, plain)}
    write_atomically(path, save(plain, metadata=metadata))


def _checksum(card: str, tensors: Mapping[str, Tensor]) -> str:
    """Over the card and every tensor: safetensors alone would not notice a flipped bit."""
    digest = hashlib.sha256(card.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; a damaged, foreign or newer file gives a clear error."""
    metadata = _metadata(path)
    card = _parse(path, metadata)
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    # The first files carry no checksum.
    if metadata.get("sha256") not in (None, _checksum(metadata["aline"], tensors)):
        raise _damaged(path, "its checksum does not match")
    return tensors, card


def read_card(path: Path) -> dict[str, Any]:
    """Only the card of a file."""
    return _parse(path, _metadata(path))


def _metadata(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise CheckpointError(f"no weights at {path}: give the folder that model.save(...) wrote")
    with _opened(path) as file:
        metadata: dict[str, str] = file.metadata() or {}
    if "aline" not in metadata:
        raise CheckpointError(f"{path} was not written by aline: its header has no card")
    if not set(metadata) <= {"aline", "sha256"}:
        raise _damaged(path, "its header has unknown fields")
    return metadata


def _parse(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    try:
        card: dict[str, Any] = json.loads(metadata["aline"])
        newer = card["format"] > FORMAT
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged(path, "its card is unreadable") from None
    if _is_deep(card):
        raise _damaged(path, f"its card is nested more than {DEEPEST} deep")
    if newer:
        raise CheckpointError(
            f"{path} has format {card['format']}, this aline reads up to {FORMAT}: upgrade aline"
        )
    return card


def _is_deep(card: dict[str, Any]) -> bool:
    """Whether a card is nested deeper than any real one, and than all that reads it can follow."""
    level: list[Any] = [card]
    for _ in range(DEEPEST):
        nested = [one for one in level if isinstance(one, dict | list)]
        level = [v for one in nested for v in (one.values() if isinstance(one, dict) else one)]
    return bool(level)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, str(error)) from None


def _damaged(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path} is damaged ({reason}): restore it or train again")
