"""Files of `--command-config`, as Kafka's command-line tools take them."""

import ssl
from pathlib import Path

import pytest

from impl.client.command_config import InvalidCommandConfig, read_command_config
from impl.client.security import NO_SECURITY
from impl.security.certificates import certificates_of_process
from impl.security.tls import InvalidCertificate

JAAS = "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
SCRAM = f"""
security.protocol = SASL_PLAINTEXT
sasl.mechanism = SCRAM-SHA-256
{JAAS} \\
    username="alice" \\
    password="a \\\\"secret\\\\";";
client.id = of no effect
"""
TLS = "security.protocol=ssl\nssl.truststore.type=PEM\nssl.truststore.location="


def read(tmp_path: Path, text: str):
    (tmp_path / "client.properties").write_text(text)
    return read_command_config(tmp_path / "client.properties")


@pytest.fixture(scope="module")
def tls():
    return certificates_of_process()


def test_a_file_without_security_asks_for_none(tmp_path):
    assert read(tmp_path, "client.id=x\nrequest.timeout.ms=1") == NO_SECURITY


def test_a_login_is_read(tmp_path):
    found = read(tmp_path, SCRAM)
    assert (found.security_protocol, found.sasl_mechanism) == ("SASL_PLAINTEXT", "SCRAM-SHA-256")
    assert (found.sasl_plain_username, found.sasl_plain_password) == ("alice", 'a "secret";')
    assert found.context is None


def test_files_in_pem_are_read(tmp_path, tls):
    context = read(tmp_path, TLS + tls.ca_file).context
    assert [ca["subject"] for ca in context.get_ca_certs()]
    assert context.check_hostname
    own = tmp_path / "own.pem"
    own.write_bytes(
        Path(tls.client_cert_file).read_bytes() + Path(tls.client_key_file).read_bytes()
    )
    more = f"\nssl.keystore.type=PEM\nssl.keystore.location={own}"
    unnamed = "\nssl.endpoint.identification.algorithm="
    context = read(tmp_path, TLS + tls.ca_file + more + unnamed).context
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("security.protocol=TLS", "security_protocol must be one of PLAINTEXT, SSL"),
        (SCRAM.replace("sasl.mechanism", "#"), "sasl_mechanism must be one of PLAIN, SCRAM"),
        (SCRAM.replace("username", "name"), 'required username="NAME" password="PASSWORD";'),
        (SCRAM.replace("sasl.jaas.config", "sasl.jaas"), "sasl.jaas is not known here; "),
        (TLS.replace("PEM", "JKS") + "a.jks", "`keytool -list -rfc -keystore a.jks > a.jks.pem`"),
        ("security.protocol=SSL\nssl.keystore.location=k.p12", "`openssl pkcs12 -in k.p12 "),
        ("security.protocol=SSL\nssl.protocol=TLSv1.3", "ssl.protocol is not known here; "),
        ("security.protocol", "'security.protocol' is no property"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, text, told):
    with pytest.raises(InvalidCommandConfig) as refused:
        read(tmp_path, text)
    assert str(refused.value).startswith(f"{tmp_path / 'client.properties'}: ")
    assert told in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_certificate_is_named(tmp_path):
    with pytest.raises(InvalidCertificate, match=r"client.properties has no CERTIFICATE in PEM"):
        read(tmp_path, TLS + str(tmp_path / "client.properties"))
    with pytest.raises(FileNotFoundError, match=r"missing\.pem"):
        read(tmp_path, TLS + str(tmp_path / "missing.pem"))
