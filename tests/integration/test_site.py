"""The pages become a site: every page of docs/ is in it, and names in the reference are found."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_site_is_built_without_a_warning_and_has_every_page(tmp_path: Path) -> None:
    subprocess.run(
        [Path(sys.executable).parent / "mkdocs", "build", "--quiet", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        check=True,
        timeout=240,
    )
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    assert pages <= {page.relative_to(tmp_path / "site") for page in (tmp_path / "site").rglob("*.html")}
    client = (tmp_path / "site" / "reference" / "client.html").read_text()
    assert 'id="stream_tgat.client.Client.recommend"' in client
    navigation = (tmp_path / "site" / "index.html").read_text()
    assert all(f'href="{page}"' in navigation for page in map(str, pages))
