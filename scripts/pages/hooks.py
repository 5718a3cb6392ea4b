"""Pages that MkDocs gets from elsewhere: tutorials from notebooks, a reference from docstrings."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import notebooks
import reference


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for path in sorted(Path(config.docs_dir).glob("tutorials/*.ipynb")):
        text = notebooks.markdown(notebooks.read(path))
        link = f"[This page as a notebook]({path.name})\n\n"
        files.append(_page(config, f"tutorials/{path.stem}.md", text + "\n" + link))
    files.append(_page(config, "reference.md", reference.page()))
    return files


def _page(config: Any, name: str, text: str) -> File:
    return File.generated(config, name, content=text)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """In the repository a link to a tutorial opens the notebook, on the site its page."""
    if page.file.src_uri.startswith("tutorials/"):
        return markdown
    return re.sub(r"\]\((tutorials/\w+)\.ipynb\)", r"](\1.md)", markdown)
