"""The calculator of the landing page states the bounds of default fits, as cards round them."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from discreet.card.risk import STATED_RATE, budget_success, percent

DOCS = Path(__file__).parents[2] / "docs"
FORM = (DOCS / "_templates" / "risk.html").read_text("utf-8")
ASK = """
<pre id="answers"></pre>
<script>
document.addEventListener("DOMContentLoaded", () => setTimeout(() => {
  const answers = [], slider = document.getElementById("risk-epsilon");
  const rate = document.getElementById("risk-rate");
  for (const value of [0, 3, 11, 15, 20])
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


def carried():
    """Return the table in the form: pairs of an ε and a bound for each rate of the list."""
    return json.loads(re.search(r"data-bounds='(.*?)'", FORM, re.DOTALL).group(1))


def test_the_form_carries_the_bounds_of_the_library():
    rates = [float(rate) for rate in re.findall(r'<option value="([\d.]+)"', FORM)]
    assert len(carried()) == 21
    for epsilon, found in carried():
        assert found == [percent(budget_success(epsilon, 1e-6, rate)) for rate in rates]


def test_the_sentence_without_a_script_is_right():
    """It is for ε = 1 and one wrong accusation in 20, the state of the form."""
    start = int(re.search(r'id="risk-epsilon"[^>]*\bvalue="(\d+)"', FORM).group(1))
    assert carried()[start][0] == 1
    assert f'value="{STATED_RATE}" selected' in FORM
    shown = re.search("<strong>(.*)</strong>", FORM).group(1)
    assert shown == percent(budget_success(1.0, 1e-6))


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
    assert len(answers) == 15
    for epsilon, rate, shown in answers:
        assert shown == percent(budget_success(float(epsilon), 1e-6, float(rate)))
