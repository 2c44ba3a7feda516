import pytest
from kombu.utils.url import parse_url as kombu_reads
from redis.connection import parse_url as redis_reads

from pipeline.errors import SpecError
from workers.broker.address import parse_address


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://", "redis://localhost:6379/0"),
        ("redis://cache", "redis://cache:6379/0"),
        ("redis://:secret@cache:7000/3", "redis://cache:7000/3"),
        ("redis://me:secret@[::1]:7000", "redis://[::1]:7000/0"),
        ("rediss://me:secret@cache", "rediss://cache:6379/0"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("unix://:secret@/run/redis.sock?db=2", "unix:///run/redis.sock"),
        ("redis+socket:///run/redis.sock?virtual_host=2", "unix:///run/redis.sock"),
    ],
)
def test_an_address_has_a_name_without_its_password(url, name):
    address = parse_address(url)
    assert address.name == name
    assert "secret" not in repr(address)


@pytest.mark.parametrize("password", ["plain", "p@ss:w/rd?#;%", "ünïcode", "a b"])
@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_both_libraries_read_the_same(scheme, password):
    from urllib.parse import quote

    address = parse_address(f"{scheme}://me:{quote(password, safe='')}@cache:7000/3")
    kombu, client = kombu_reads(address.kombu_url), redis_reads(address.redis_url)
    assert (kombu["userid"], kombu["password"]) == (client["username"], client["password"]) == ("me", password)
    assert (kombu["hostname"], kombu["port"], int(kombu["virtual_host"])) == ("cache", 7000, 3)
    assert (client["host"], client["port"], client["db"]) == ("cache", 7000, 3)
    assert ";" not in address.kombu_url


def test_a_socket_is_told_to_each_library_in_its_own_way():
    address = parse_address("unix://:se%3Bcret@/run/my%20redis.sock?db=2")
    assert address.kombu_url == "redis+socket://:se%3Bcret@/run/my%20redis.sock?virtual_host=2"
    client = redis_reads(address.redis_url)
    assert (client["path"], client["password"], client["db"]) == ("/run/my redis.sock", "se;cret", 2)


@pytest.mark.parametrize(
    ("options", "read"),
    [("", "required"), ("?ssl_cert_reqs=none", "none"), ("?ssl_cert_reqs=CERT_NONE", "none")],
)
def test_certificates_are_looked_at_unless_the_url_says_otherwise(options, read):
    address = parse_address(f"rediss://cache{options}")
    assert redis_reads(address.redis_url)["ssl_cert_reqs"] == read
    assert kombu_reads(address.kombu_url)["ssl"]["ssl_cert_reqs"].name == f"CERT_{read.upper()}"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("amqp://me:secret@cache", "it begins with amqp://"),
        ("me:secret@cache:6379", "it does not begin so"),
        ("", "must begin with redis://"),
        ("redis://me:sec/ret@cache", "The port in the broker's URL is no number"),
        ("redis://me:secret@cache:port", "The port in the broker's URL is no number"),
        ("redis://me:secret@cache/first", "the number of a database"),
        ("redis://me:secret@cache?ssl_cert_reqs=none", 'an option "ssl_cert_reqs", which redis:// does not know'),
        ("rediss://me:secret@cache?ssl_cert_req=none", 'Did you mean "ssl_cert_reqs"?'),
        ("rediss://me:secret@cache?ssl_cert_reqs=sometimes", "must be one of required, optional, none"),
        ("rediss://me:secret@cache?ssl_ca_certs=/nowhere.pem", "names /nowhere.pem, and there is no such file"),
        ("unix://me:secret@run/redis.sock", "by its whole path"),
        ("unix://", "by its whole path"),
        ("unix:///run/redis.sock?db=first", "the number of a database"),
    ],
)
def test_a_url_that_makes_no_sense_is_told_without_its_password(url, told):
    with pytest.raises(SpecError) as caught:
        parse_address(url)
    assert told in str(caught.value)
    assert "sec" not in str(caught.value)
    assert caught.value.__cause__ is None
