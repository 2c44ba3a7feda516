"""`pipeline ui`: what it serves, to whom, and what it keeps to itself."""

import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import quote

import pytest

from jobs.pages.server import SiteServer
from jobs.pages.site import Site
from jobs.ui import _is_local, _told
from pipeline.errors import JobError, TryAgain
from pipeline.store.records import Role, WorkerState
from tests.jobs.html_page import Page
from workers.process import Members

HERE = {"Host": "localhost:8800"}


@pytest.fixture
def site(desk):
    return Site(desk.database, desk.settings, None)


@pytest.fixture
def guarded(desk):
    return Site(desk.database, desk.settings, "secret")


@pytest.fixture
def served(site) -> Iterator[HTTPConnection]:
    with SiteServer(site, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield HTTPConnection(*server.server_address[:2], timeout=10)
        server.shutdown()
        thread.join()


def test_all_jobs_are_a_table_with_links_to_their_reports(desk, site):
    night, other = desk.done("night"), desk.running("<b>new</b>", batches=1)
    answer = site.answer("/", HERE)
    page = Page(answer.body)
    assert answer.status == 200
    assert page.texts["a"] == ["<b>new</b>", "night"]
    assert page.addresses() == {"data:,", f"/jobs/{night.id}", f"/jobs/{other.id}"}
    assert page.texts["td"][:3] == ["interrupted", "3/6", "1"]


def test_of_many_jobs_the_newest_are_shown_and_the_others_counted(desk, site, monkeypatch):
    monkeypatch.setattr("jobs.pages.site._MOST_JOBS", 2)
    desk.cutting("first")
    desk.cutting("second")
    assert "Left out" not in site.answer("/", HERE).body
    desk.cutting("third")
    page = Page(site.answer("/", HERE).body)
    assert page.texts["a"] == ["third", "second"]
    assert page.texts["p"][-1].startswith("Left out: 1 older job, which")


def test_a_report_is_that_of_the_command_with_a_way_back(desk, site):
    job = desk.done("night")
    page = Page(site.answer(f"/jobs/{job.id}", HERE).body)
    assert page.texts["h1"] == ["night"]
    assert page.addresses() == {"data:,", "/"}
    assert len(page.tables) >= 6
    assert "Too long" not in str(page.texts)


def test_what_goes_on_is_looked_at_again_and_what_has_ended_is_not(desk, site):
    job = desk.running("night", batches=1)
    assert 'http-equiv="refresh"' not in site.answer(f"/jobs/{job.id}", HERE).body
    with Members(desk.home).joined(job.id):
        assert 'http-equiv="refresh" content="5"' in site.answer(f"/jobs/{job.id}", HERE).body
        assert 'http-equiv="refresh" content="5"' in site.answer("/", HERE).body


def test_who_works_on_it_is_shown(desk, site):
    job = desk.running("night", batches=1, fleet=True)
    desk.enter(Role.GPU, WorkerState.BUSY, device="cuda:0", job_id=job.id, batch_no=1)
    page = Page(site.answer(f"/jobs/{job.id}", HERE).body)
    assert page.tables["Who works on it"][0][:5] == ["gpu", "far", "cuda:0", "busy", "night, batch 1"]


@pytest.mark.parametrize("path", ["/jobs/nobody", "/jobs", "/etc/passwd", "//", "/jobs/a/b"])
def test_what_is_not_there_is_told(site, path):
    answer = site.answer(path, HERE)
    assert answer.status == 404
    assert Page(answer.body).texts["h1"] == ["Not Found"]


def test_a_database_that_is_away_is_told(site, monkeypatch):
    def away(*arguments):
        raise TryAgain("The database is away.")

    monkeypatch.setattr("jobs.pages.site.all_standings", away)
    answer = site.answer("/", HERE)
    assert (answer.status, Page(answer.body).texts["p"]) == (503, ["The database is away."])


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8800", "localhost.evil.example", "", "["])
def test_without_a_token_only_a_local_name_leads_to_it(site, host):
    assert site.answer("/", {"Host": host}).status == 403
    assert site.answer("/", {"Host": "[::1]:8800"}).status == 200


def test_with_a_token_nothing_is_shown_to_those_who_do_not_know_it(desk, guarded):
    desk.done("night")
    for headers in ({}, {"Cookie": "pipeline_token=wrong"}, {"Authorization": "Bearer wrong"}, {"Cookie": "\x00=;"}):
        for path in ("/", "/?token=wrong", "/?token=", "/jobs/night"):
            answer = guarded.answer(path, headers)
            assert answer.status == 401
            assert "night" not in answer.body


def test_a_token_in_the_address_becomes_a_cookie_and_leaves_the_address(desk, guarded):
    desk.done("night")
    answer = guarded.answer("/jobs/night?token=secret", {"Host": "any"})
    assert (answer.status, answer.headers["Location"], answer.body) == (303, "/jobs/night", "")
    cookie, *rest = answer.headers["Set-Cookie"].split("; ")
    assert rest == ["HttpOnly", "SameSite=Lax", "Path=/"]
    assert "secret" not in cookie
    assert guarded.answer("/jobs/night", {"Cookie": cookie}).status == 200
    assert guarded.answer("/jobs/night", {"Authorization": "Bearer secret"}).status == 200


def cookie_of(site: Site, token: str) -> str:
    return site.answer(f"/?token={token}", {}).headers["Set-Cookie"].partition(";")[0]


@pytest.mark.parametrize(
    "others", ["a=b; {}", '{}; x="', "x=\xff; {}; y=1", "pipeline_token=old; {}", "{};", "\x00;{}"]
)
def test_cookies_of_others_hide_ours_not(guarded, others):
    assert guarded.answer("/", {"Cookie": others.format(cookie_of(guarded, "secret"))}).status == 200


def test_names_of_headers_and_of_the_scheme_are_read_in_either_case(desk, site, guarded):
    assert site.answer("/", {"host": "localhost"}).status == 200
    assert guarded.answer("/", {"cookie": cookie_of(guarded, "secret")}).status == 200
    assert guarded.answer("/", {"authorization": "bearer secret"}).status == 200


@pytest.mark.parametrize(
    "path", ["//evil.example", "/\\evil.example", "/\\/evil.example", "\\\\evil.example", "///evil.example"]
)
def test_a_token_leads_to_no_other_site(guarded, path):
    assert guarded.answer(f"{path}?token=secret", {}).headers["Location"] == "/evil.example"


def test_an_address_of_another_site_is_a_path_of_ours(guarded):
    assert guarded.answer("http://evil.example/?token=secret", {}).headers["Location"] == "/http:/evil.example/"


@pytest.mark.parametrize("token", ["abc+def/gh==", "a.b~c-d_e"])
def test_a_token_is_taken_as_it_stands_and_as_it_is_quoted(desk, token):
    site = Site(desk.database, desk.settings, token)
    for written in (token, quote(token, safe="")):
        assert site.answer("/", {"Cookie": cookie_of(site, written)}).status == 200


@pytest.mark.parametrize("token", ["a;b", "a b", 'a"b', "pässe", "a&b", "100%", "=a"])
def test_a_token_that_could_not_be_sent_is_refused_without_being_shown(run, token):
    refused = run("ui", "--port", "0", PIPELINE_UI_TOKEN=token)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("Error: PIPELINE_UI_TOKEN must be of letters")
    assert token not in refused.stderr


def test_it_is_served_closed_to_all_that_a_page_may_not_do(desk, served, capsys):
    desk.done("night")
    served.request("GET", "/jobs/night")
    answer = served.getresponse()
    assert (answer.status, answer.headers.get_content_type()) == (200, "text/html")
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert Page(answer.read().decode()).texts["h1"] == ["night"]
    served.request("HEAD", "/")
    answer = served.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    served.request("POST", "/", body="x")
    assert served.getresponse().status == 501
    assert capsys.readouterr() == ("", "")


def test_a_browser_that_goes_away_is_no_fault(site, capsys):
    with SiteServer(site, "127.0.0.1", 0) as server:
        for fault, told in ((ConnectionResetError(), False), (BrokenPipeError(), False), (KeyError("x"), True)):
            try:
                raise fault
            except Exception:
                server.handle_error(None, ("127.0.0.1", 1))
            assert ("Traceback" in capsys.readouterr().err) is told


def test_an_address_that_is_taken_is_told(site):
    with SiteServer(site, "127.0.0.1", 0) as server, pytest.raises(JobError, match="Address already in use"):
        SiteServer(site, "127.0.0.1", server.server_address[1])


def test_a_token_is_made_for_other_addresses_and_a_given_one_is_not_shown():
    assert all(map(_is_local, ("127.0.0.1", "::1", "localhost")))
    assert not any(map(_is_local, ("0.0.0.0", "::", "box")))
    assert _told("::1", 80, given=False, made=None) == "All jobs are at http://[::1]:80/  Ctrl-C ends this."
    assert "http://box:80/?token=abc  " in _told("box", 80, given=False, made="abc")
    assert "PIPELINE_UI_TOKEN behind it" in _told("box", 80, given=True, made=None)


def test_ctrl_c_is_how_it_ends(run, monkeypatch):
    def interrupted(server):
        raise KeyboardInterrupt

    monkeypatch.setattr(SiteServer, "serve_forever", interrupted)
    done = run("ui", "--port", "0")
    assert done.exit_code == 0
    assert done.stdout.startswith("All jobs are at http://127.0.0.1:")
    assert "token" in run("ui", "--port", "0", "--host", "0.0.0.0").stdout
    told = run("ui", "--port", "0", PIPELINE_UI_TOKEN="s3cret").output
    assert "PIPELINE_UI_TOKEN" in told
    assert "s3cret" not in told
