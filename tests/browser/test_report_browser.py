"""The report of the paper fits into a window, also into a narrow one."""

from bot_orch.cli import main


def test_the_report_does_not_spill_over(browser, tmp_path):
    only = ["--only", "triage-lambda", "theory-structure"]
    assert main(["reproduce", *only, "--quick", "--quiet", "--jobs", "1", "--out", str(tmp_path)]) == 0
    for width in (1240, 400):
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.goto(f"file://{tmp_path}/index.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
