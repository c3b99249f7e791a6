import subprocess
import sys


def test_demo_prints_a_table_and_saves_a_figure(tmp_path):
    figure = tmp_path / "demo.png"
    out = subprocess.run(
        [sys.executable, "-m", "discreet", "demo", "--figure", str(figure)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    for text in ("private, ε = 0.1", "private, ε = 3", "no privacy", "commoner class"):
        assert text in out
    assert "differentially private" in out
    assert figure.read_bytes().startswith(b"\x89PNG")
