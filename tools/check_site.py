"""Check the built documentation: links, requests and texts for images.

    python tools/check_site.py out/docs

Every local link and anchor must exist, no page may load anything from another host, and every
image needs a text. Exits with 1 and a list if something is wrong.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("img", "src"), ("script", "src"), ("source", "src"), ("iframe", "src"), ("link", "href")}
"""Attributes whose address a browser loads by itself; that of ``a`` is followed on a click."""

REMOTE = re.compile(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//")


class Page(HTMLParser):
    """Anchors, links, loaded addresses and images without a text of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.images: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names, links to or loads."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        self.loaded += [value for name, value in found.items() if (tag, name) in LOADED]
        decorative = "_thumb" in found.get("src", "") and found.get("alt") == ""  # beside its title
        if tag == "img" and not found.get("alt", "").strip() and not decorative:
            self.images.append(found.get("src", "")[:80])


def problems(root: Path) -> Iterator[str]:
    """Yield one line per problem of a built site."""
    files = [path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path.read_text("utf-8")) for path in files}
    if not pages:
        yield f"{root} has no pages"
    for path, page in pages.items():
        name = path.relative_to(root)
        yield from (f"{name}: image without a text: {image}" for image in page.images)
        for address in page.loaded:
            if urlsplit(address).scheme not in ("", "data") or address.startswith("//"):
                yield f"{name}: loads {address} from another host"
        for address in [*page.links, *page.loaded]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name}: links to {address}, which does not exist"
            elif (wanted := unquote(parts.fragment)) and target.suffix == ".html":
                known = pages[target].anchors if target in pages else set()
                if wanted not in known:
                    yield f"{name}: links to {address}, which has no such anchor"
    for style in sorted(root.rglob("*.css")):
        if REMOTE.search(style.read_text("utf-8")):
            yield f"{style.relative_to(root)}: loads something from another host"


def main() -> int:
    """Check the folder that is named and print what is wrong."""
    root = Path(sys.argv[1]).resolve()
    found = list(problems(root))
    print(*found, sep="\n") if found else print(f"{root.name}: no problem found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
