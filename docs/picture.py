"""Takes the README's picture: the report of a recording, in a real browser.

python docs/picture.py [CHROMIUM]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECORDING = ROOT / "tests" / "fixtures" / "event_dumps" / "restart-together-100-15s.ndjson.gz"
PICTURE = ROOT / "docs" / "report.png"
_WINDOW = "1300,1060"


def main() -> None:
    browser = sys.argv[1] if len(sys.argv) > 1 else "chromium"
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        replay = [sys.executable, "-m", "poseidon_reconciler", "replay", str(RECORDING), "--report", str(page)]
        subprocess.run(replay, check=True, stdout=subprocess.DEVNULL)
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
        ]
        shot = [f"--screenshot={PICTURE}", f"--window-size={_WINDOW}", page.as_uri()]
        subprocess.run([browser, *options, *shot], check=True, capture_output=True, timeout=60)


if __name__ == "__main__":
    main()
