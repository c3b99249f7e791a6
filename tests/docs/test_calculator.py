"""The calculator of the landing page states the bound of docs/proofs/risk.md, rounded up."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from discreet.card.risk import approximate_bound

DOCS = Path(__file__).parents[2] / "docs"
FORM = (DOCS / "_templates" / "risk.html").read_text("utf-8")
ASK = """
<pre id="answers"></pre>
<script>
document.addEventListener("DOMContentLoaded", () => setTimeout(() => {
  const answers = [], slider = document.getElementById("risk-epsilon");
  const rate = document.getElementById("risk-rate");
  for (const value of [-2, -1, -0.5, 0, 0.3, 0.6, 0.9, 1.3])
    for (let index = 0; index < rate.options.length; index++) {
      slider.value = value;
      rate.selectedIndex = index;
      document.getElementById("risk").dispatchEvent(new Event("input"));
      answers.push([document.getElementById("risk-shown").textContent, rate.value,
                    document.querySelector("#risk-text strong").textContent]);
    }
  document.getElementById("answers").textContent = JSON.stringify(answers);
}));
</script>
"""


def excess(epsilon, rate, shown):
    """Return by how much a shown percentage is above the bound."""
    return float(shown.removesuffix(" %")) - 100 * approximate_bound(epsilon, 1e-6, rate)


def test_the_sentence_without_a_script_is_right():
    """It is for ε = 1 and one wrong accusation in 20, the state of the form."""
    assert 'value="0"' in FORM
    assert 'value="0.05" selected' in FORM
    shown = re.search("<strong>(.*)</strong>", FORM).group(1)
    assert 0 <= excess(1.0, 0.05, shown) <= 0.1


@pytest.mark.browser
def test_the_script_states_the_bound(tmp_path):
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    if binary is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no chromium")
    script = (DOCS / "_static" / "risk.js").read_text("utf-8")
    page = tmp_path / "page.html"
    page.write_text(f"<meta charset=utf-8>{FORM}<script>{script}</script>{ASK}", encoding="utf-8")
    command = [binary, "--headless=new", "--no-sandbox", "--disable-gpu",
               f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000",
               "--dump-dom", page.as_uri()]  # fmt: skip
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    answers = json.loads(re.search('<pre id="answers">(.*?)</pre>', dom).group(1))
    assert len(answers) == 32
    for epsilon, rate, shown in answers:
        assert -1e-6 <= excess(float(epsilon), float(rate), shown) <= 0.1
