"""The report of an experiment, from its page."""

import html
import re

from starlette.testclient import TestClient

API = "/api/v1/experiments"


def test_the_page_links_to_a_report_with_figures(client: TestClient) -> None:
    client.post(API, json={"name": "P 1", "model": "psychometric", "target": ["threshold"]})
    path = f"{API}/P%201"
    for answer in (True, False):
        trial = client.post(f"{path}/ask").json()
        client.post(f"{path}/trials/{trial['number']}/tell", json={"outcome": answer})
    page = client.get("/experiments/P%201").text
    (link,) = re.findall(r'href="([^"]*format=html)" download>Report with figures', page)
    report = client.get(html.unescape(link))
    assert report.status_code == 200, report.text
    assert "attachment; filename*=UTF-8''P%201.html" in report.headers["content-disposition"]
    assert "psychometric" in report.text
    assert report.text.count("<svg") >= 3
    assert "<script" not in report.text
