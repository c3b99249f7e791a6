import pytest

from discreet.page import document


def test_a_page_without_script_lets_none_run():
    page = document("A & B", "<p>words</p>", style="p { color: red; }")
    assert page.startswith('<!doctype html>\n<html lang="en">')
    assert "<title>A &amp; B</title>" in page
    assert "default-src 'none'; style-src 'unsafe-inline'\"" in page
    assert "<script" not in page
    assert page.endswith("</html>\n")


def test_a_script_may_run_but_load_nothing():
    page = document("t", "<p>words</p>", style="", script="let a = 1;")
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    assert policy + 'img-src data:"' in page
    assert page.index("<p>words") < page.index("<script>let a = 1;</script>")


@pytest.mark.parametrize("part", [{"style": "</STYLE >"}, {"style": "", "script": "'</script'"}])
def test_a_part_cannot_end_itself(part):
    with pytest.raises(ValueError, match="end this part of the page early"):
        document("t", "", **part)
