"""Add the addresses of the project to the metadata of a build, from ``DISCREET_REPOSITORY``.

The address of a repository is known to whoever releases, not to the source: a clone or mirror that
builds without it states none.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {
    "Source": "",
    "Documentation": "/tree/main/docs",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
    "Security": "/blob/main/SECURITY.md",
}
"""Pages of a repository by their label."""


class ProjectUrls(MetadataHookInterface):  # type: ignore[misc]
    """Hook of hatchling that fills ``project.urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the addresses, if the repository's is given; refuse one that is no address."""
        repository = os.environ.get("DISCREET_REPOSITORY", "").rstrip("/")
        if repository and not repository.startswith("https://"):
            raise ValueError(
                f"DISCREET_REPOSITORY must be an address with https://; got {repository!r}."
            )
        metadata["urls"] = {name: repository + page for name, page in PAGES.items() if repository}
