"""Takes the pictures of the status page: before, while and after all agents of a demo restart together.

python docs/screenshots.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import requests
from selenium import webdriver

FOLDER: Final = Path(__file__).parent
PORT: Final = 8647
URL: Final = f"http://127.0.0.1:{PORT}"
_PATIENCE_S: Final = 180.0
_WIDE: Final = (1280, 1200)
_PHONE: Final = (390, 1500)

Status = dict[str, Any]


def main() -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "poseidon_reconciler", "demo", "--page", str(PORT)], stdout=subprocess.DEVNULL
    )
    try:
        with browser() as driver:
            wait_for(is_full)
            driver.get(URL)
            time.sleep(4)  # the charts show some seconds of peace
            shoot(driver, "page-before")
            wait_for(is_in_trouble)
            time.sleep(3)  # the charts too show it
            shoot(driver, "page-during")
            shoot(driver, "page-phone", size=_PHONE)
            wait_for(lambda status: bool(status["actions"]) and is_full(status) and is_at_rest(status))
            time.sleep(3)
            shoot(driver, "page-after")
            shoot(driver, "page-dark", dark=True)
    finally:
        demo.terminate()
        demo.wait()


def is_full(status: Status) -> bool:
    rows = status["environments"].values()
    return len(rows) == 2 and all(row["target"] and row["idle"] >= row["target"] for row in rows)


def is_in_trouble(status: Status) -> bool:
    """Jobs were protected, and what is missing is held back or on its way."""
    return len(status["actions"]) > 10 and not is_full(status) and bool(status["losses"] or status["holds"])


def is_at_rest(status: Status) -> bool:
    ready = all(node["status"] == "ready" for node in status["nodes"])
    return ready and not status["holds"] and all(action["outcome"] for action in status["actions"])


def wait_for(condition: Callable[[Status], bool]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        try:
            if condition(requests.get(f"{URL}/v1/status", timeout=5).json()):
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.1)
    raise SystemExit("the demo did not come to that")


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(option)
    options.binary_location = shutil.which("chromium") or ""
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def shoot(driver: webdriver.Chrome, name: str, *, size: tuple[int, int] = _WIDE, dark: bool = False) -> None:
    """Writes the picture of the page as it is now, as far down as the size goes or the page does."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == _PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    lowest = driver.execute_script("return document.querySelector('footer').getBoundingClientRect().bottom + 24")
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**metrics, "height": min(height, round(lowest))})
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.save_screenshot(str(FOLDER / f"{name}.png"))


if __name__ == "__main__":
    main()
