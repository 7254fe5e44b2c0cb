"""Well-formed credentials, all made up: put together at run time, so that no scanner (and no forge)
takes this file for a leak. Each is a name and a line or some lines as somebody would paste them.
"""

from __future__ import annotations

import base64
import json
import random
import string

_UPPER, _LOWER, _DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
_ALNUM = _UPPER + _LOWER + _DIGITS
_HEX = "0123456789abcdef"
_random = random.Random(20_260_101)


def _some(length: int, letters: str = _ALNUM) -> str:
    """Return made-up characters, at least one of them a digit and one a letter."""
    while True:
        made = "".join(_random.choices(letters, k=length))
        if any(c.isdigit() for c in made) and any(c.isalpha() for c in made):
            return made


def _hex(length: int) -> str:
    return _some(length, _HEX)


def _low(length: int) -> str:
    return _some(length, _LOWER + _DIGITS)


def _url64(length: int) -> str:
    return _some(length - 1, _ALNUM + "-_") + _some(2)[0]


def _digits(length: int) -> str:
    return "1" + "".join(_random.choices(_DIGITS, k=length - 1))


def _uuid() -> str:
    made = _hex(32)
    return "-".join((made[:8], made[8:12], made[12:16], made[16:20], made[20:]))


def _base64(count: int) -> str:
    return base64.b64encode(_random.randbytes(count)).decode()


def _pem(name: str, count: int = 600, join: str = "\n") -> str:
    body = _base64(count)
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return join.join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"])


def _jwt() -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": _digits(8), "name": "Ann", "iat": 1516239022})
    coded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().strip("=") for p in parts]
    return ".".join([*coded, _url64(43)])


def _make_unseen() -> list[tuple[str, str]]:
    """Return those that were written before any rule was, and that no rule is made for."""
    return [
        ("docker run -e", f"docker run -e POSTGRES_PASSWORD={_some(14)} -p 5432:5432 postgres"),
        ("export of a token", f"export CIRCLE_TOKEN={_hex(40)}"),
        ("yaml of a chart", f"grafana:\n  adminUser: admin\n  adminPassword: {_some(18)}\n"),
        ("django's key", f"SECRET_KEY = 'django-insecure-{_low(44)}'"),
        ("rails' key", f"secret_key_base: {_hex(128)}"),
        ("json of an app", json.dumps({"client_id": _low(20), "client_secret": _some(40)})),
        ("spring properties", f"spring.datasource.password={_some(16)}!"),
        ("header of an API", f"curl -H 'X-Api-Key: {_low(32)}' https://api.example.net/v1"),
        ("bearer in curl", f'curl -H "Authorization: Bearer {_url64(40)}" https://api.example.net'),
        ("basic user", f"curl -u 'deploy:{_some(15)}' https://repo.example.net/x.tgz"),
        ("mysql on a shell", f"mysql://root:{_some(12)}@10.0.0.5:3306/shop"),
        ("password in prose", f"the staging password is: `{_some(6)}${_some(7)}`"),
        ("wifi in a table", f"| wifi password | {_some(10)}-{_some(5)} |"),
        ("connection string", f"Server=db1;Database=x;User Id=sa;Password={_some(13)}#;"),
        ("terraform variable", f'  api_token = "{_low(36)}"'),
        ("datadog in yaml", f"  DD_API_KEY: {_hex(32)}"),
        ("toml token", f'[registry]\ntoken = "{_some(32)}"'),
        ("php define", f"define('DB_PASSWORD', '{_some(11)}%{_some(6)}');"),
        ("ansible", f"ansible_become_pass: {_some(17)}"),
        ("python keyword", f'client = Client(host="a", api_key="{_some(32)}")'),
        ("js object", f"const cfg = {{ apiSecret: '{_some(30)}', region: 'eu' }}"),
        ("webhook secret", f"WEBHOOK_SECRET={_hex(40)}"),
        ("encryption key", f"ENCRYPTION_KEY={_base64(32)}"),
        ("session secret", f'"sessionSecret": "{_hex(64)}"'),
        ("smtp", f"SMTP_PASS={_low(16)}"),
        ("compose, quoted", f'      - "MINIO_SECRET_KEY={_some(40)}"'),
        ("private token header", f"PRIVATE-TOKEN: {_url64(20)}"),
        ("sentry auth", f"SENTRY_AUTH_TOKEN={_hex(64)}"),
        ("ftp address", f"ftp://web42:{_some(9)}@ftp.example.net/htdocs"),
        ("mqtt", f"mqtt_password: '{_some(12)}'"),
    ]


def _make_clouds() -> list[tuple[str, str]]:
    sas = f"sv=2022-11-02&ss=b&srt=co&sp=rl&se=2027-01-01&sig={_base64(32).replace('=', '%3D')}"
    account = {"type": "service_account", "private_key_id": _hex(40)}
    account["private_key"] = _pem("PRIVATE" + " KEY", join="\n")
    base32 = _UPPER + "234567"
    return [
        ("AWS access key", "AKIA" + _some(16, base32)),
        ("AWS temporary key", "ASIA" + _some(16, base32)),
        ("AWS secret key", "aws_secret_access_key = " + _some(40)),
        ("AWS secret key in JSON", json.dumps({"SecretAccessKey": _some(39) + "/"})),
        ("AWS session token", "AWS_SESSION_TOKEN=IQoJb3JpZ2luX2Vj" + _base64(240)),
        ("AWS Bedrock key", "ABSK" + _base64(98)),
        ("Google API key", "AIza" + _url64(35)),
        ("Google OAuth secret", "GOC" + "SPX-" + _url64(28)),
        ("Google access token", "ya29." + _url64(120)),
        ("Google refresh token", "1//0" + _url64(60)),
        ("Google service account", json.dumps(account)),
        ("Azure storage", "AccountName=ann;Account" + "Key=" + _base64(64)),
        ("Azure client secret", _some(3) + "8Q~" + _url64(34)),
        ("Azure SAS", "https://ann.blob.core.windows.net/x?" + sas),
        ("Azure DevOps token", _some(76) + "AZ" + "DO" + _some(4)),
        ("Alibaba key", "LTAI" + _some(20)),
        ("Tencent key", "AKID" + _some(32)),
        ("DigitalOcean token", "dop_v1_" + _hex(64)),
        ("DigitalOcean OAuth", "doo_v1_" + _hex(64)),
        ("DigitalOcean refresh", "dor_v1_" + _hex(64)),
        ("Heroku key", "HRKU-" + "AA" + _url64(58)),
        ("Heroku by name", "HEROKU_API_KEY=" + _uuid()),
        ("Cloudflare by name", "CLOUDFLARE_API_TOKEN=" + _url64(40)),
        ("Cloudflare origin CA", "v1.0-" + _hex(24) + "-" + _hex(146)),
        ("Fly.io", "FlyV1 fm2_" + _base64(90)),
        ("Netlify", "nfp_" + _some(36)),
        ("Render", "rnd_" + _some(32)),
        ("Scalingo", "tk-us-" + _url64(48)),
        ("PlanetScale", "pscale_tkn_" + _url64(43)),
        ("Tailscale", "tskey-auth-" + _some(16) + "-" + _some(32)),
        ("Databricks", "dapi" + _hex(32)),
        ("HashiCorp Vault", "hvs." + _url64(95)),
        ("HashiCorp Vault batch", "hvb." + _url64(150)),
        ("Terraform Cloud", _some(14) + ".atlasv1." + _url64(64)),
        ("Pulumi", "pul-" + _hex(40)),
        ("Doppler", "dp.pt." + _some(43)),
        ("1Password service account", "ops_eyJ" + _url64(250)),
        (
            "1Password secret key",
            "A3-" + "-".join(_some(n, _UPPER + _DIGITS) for n in (6, 11, 5, 5, 5)),
        ),
        ("Supabase", "sbp_" + _hex(40)),
        ("Supabase secret", "sb_secret_" + _url64(31)),
    ]


def _make_code() -> list[tuple[str, str]]:
    return [
        ("GitHub personal", "ghp_" + _some(36)),
        ("GitHub OAuth", "gho_" + _some(36)),
        ("GitHub user", "ghu_" + _some(36)),
        ("GitHub server", "ghs_" + _some(36)),
        ("GitHub refresh", "ghr_" + _some(36)),
        ("GitHub fine-grained", "github_pat_" + _some(22) + "_" + _some(59)),
        ("GitLab personal", "glpat-" + _url64(20)),
        ("GitLab runner", "glrt-" + _url64(20)),
        ("GitLab trigger", "glptt-" + _hex(40)),
        ("GitLab deploy", "gldt-" + _url64(20)),
        ("GitLab feed", "glft-" + _url64(20)),
        ("GitLab SCIM", "glsoat-" + _url64(20)),
        ("GitLab job", "glcbt-" + _hex(2) + "_" + _url64(20)),
        ("Atlassian", "ATAT" + "T3" + _url64(180) + "=" + _hex(8).upper()),
        ("Bitbucket", "ATBB" + _some(32)),
        ("npm", "npm_" + _some(36)),
        ("npmrc", "//registry.npmjs.org/:_authToken=" + _uuid()),
        ("PyPI", "pypi-" + "AgEIcHlwaS5vcmc" + _url64(140)),
        ("RubyGems", "rubygems_" + _hex(48)),
        ("crates.io", "cio" + _some(32)),
        ("Clojars", "CLOJARS_" + _low(60)),
        ("NuGet", "oy2" + _low(43)),
        ("Docker", "dckr_pat_" + _url64(27)),
        ("Docker, organisation", "dckr_oat_" + _url64(32)),
        ("docker config", json.dumps({"auths": {"r.io": {"auth": _base64(36)}}})),
        ("Artifactory", "AKCp8" + _some(68)),
        ("SonarQube", "squ_" + _hex(40)),
        ("Snyk by name", "SNYK_TOKEN=" + _uuid()),
        ("Sentry", "sntrys_" + "eyJpYXQiO" + _base64(90) + "_" + _url64(43)),
        ("Sentry user", "sntryu_" + _hex(64)),
        ("Grafana service", "glsa_" + _some(32) + "_" + _hex(8)),
        ("Grafana Cloud", "glc_" + "eyJv" + _base64(60)),
        ("New Relic", "NRAK-" + _some(27, _UPPER + _DIGITS)),
        ("Datadog by name", "DATADOG_APP_KEY=" + _hex(40)),
        ("Dynatrace", "dt0c01." + _some(24, _UPPER + _DIGITS) + "." + _some(64, _UPPER + _DIGITS)),
        ("Buildkite", "bkua_" + _hex(40)),
        ("CircleCI", "CCIPAT_" + _some(22) + "_" + _hex(40)),
        ("Postman", "PMAK-" + _hex(24) + "-" + _hex(34)),
        ("Prefect", "pnu_" + _low(36)),
        ("ReadMe", "rdme_" + _low(70)),
    ]


def _make_services() -> list[tuple[str, str]]:
    numbers = f"{_digits(12)}-{_digits(12)}"
    hook = f"T{_some(8, _UPPER + _DIGITS)}/B{_some(10, _UPPER + _DIGITS)}/{_some(24)}"
    return [
        ("Slack bot", f"xoxb-{numbers}-{_some(24)}"),
        ("Slack user", f"xoxp-{numbers}-{_digits(12)}-{_hex(32)}"),
        ("Slack app", f"xapp-1-A{_some(10, _UPPER + _DIGITS)}-{_digits(13)}-{_hex(64)}"),
        ("Slack webhook", "https://hooks.slack.com/serv" + f"ices/{hook}"),
        ("Slack refresh", f"xoxe.xoxp-1-{_some(160)}"),
        ("Discord webhook", "https://discord.com/api/web" + f"hooks/{_digits(18)}/{_url64(68)}"),
        ("Discord bot", f"M{_some(23)}.{_some(6)}.{_url64(38)}"),
        ("Telegram bot", f"{_digits(10)}:AA{_url64(33)}"),
        (
            "Teams webhook",
            f"https://acme.webhook.office.com/webhookb2/{_uuid()}@{_uuid()}/IncomingWebhook/{_hex(32)}/{_uuid()}",
        ),
        ("Stripe live", "sk_live_" + _some(24)),
        ("Stripe test", "sk_test_" + _some(24)),
        ("Stripe restricted", "rk_live_" + _some(99)),
        ("Stripe webhook", "whsec_" + _some(32)),
        ("Square", "sq0atp-" + _url64(22)),
        ("Square secret", "sq0csp-" + _url64(43)),
        ("Braintree", f"access_token$production${_low(16)}${_hex(32)}"),
        ("Plaid", "access-production-" + _uuid()),
        ("Shopify", "shpat_" + _hex(32)),
        ("Shopify secret", "shpss_" + _hex(32)),
        ("Flutterwave", "FLWSECK-" + _hex(32) + "-X"),
        ("Shippo", "shippo_live_" + _hex(40)),
        ("EasyPost", "EZAK" + _some(54)),
        ("Duffel", "duffel_live_" + _url64(43)),
        ("Twilio", "SK" + _hex(32)),
        ("Twilio by name", "TWILIO_AUTH_TOKEN=" + _hex(32)),
        ("SendGrid", "SG." + _url64(22) + "." + _url64(43)),
        ("Mailgun", "key-" + _hex(32)),
        ("Mailchimp", _hex(32) + "-us12"),
        ("Brevo", "xkeysib-" + _hex(64) + "-" + _some(16)),
        ("Linear", "lin_api_" + _some(40)),
        ("Notion", "ntn_" + _digits(11) + _some(35)),
        ("Notion, old", "secret_" + _some(43)),
        ("Figma", "figd_" + _url64(40)),
        ("Airtable", "pat" + _some(14) + "." + _hex(64)),
        ("Asana by name", "ASANA_CLIENT_SECRET=" + _hex(32)),
        ("Adafruit", "aio_" + _some(28)),
        ("Dropbox", "sl." + _url64(135)),
        ("Facebook", "EAA" + "CEdEose0cBA" + _some(150)),
        ("Fastly by name", "FASTLY_API_TOKEN=" + _url64(32)),
        ("Flickr by name", "flickr_secret = " + _hex(16)),
        ("HubSpot", "pat-na1-" + _uuid()),
        ("Intercom", "dG9rO" + _base64(41)),
        ("Okta", "Authorization: SSWS 00" + _url64(40)),
        ("Typeform", "tfp_" + _url64(44) + "_" + _some(14)),
        ("Yandex", "AQVN" + _url64(36)),
        ("Yandex OAuth", "y0_" + _url64(55)),
        ("Zendesk by name", "zendesk_api_token: " + _some(40)),
        ("Contentful", "CFPAT-" + _url64(43)),
        ("Mapbox", "sk.eyJ" + _url64(80) + "." + _url64(22)),
        ("LaunchDarkly", "sdk-" + _uuid()),
        ("Frame.io", "fio-u-" + _url64(64)),
        ("PayPal by name", "PAYPAL_CLIENT_SECRET=E" + _url64(79)),
    ]


def _make_models() -> list[tuple[str, str]]:
    return [
        ("OpenAI", "sk-" + _some(20) + "T3Blbk" + "FJ" + _some(20)),
        ("OpenAI project", "sk-proj-" + _url64(74) + "T3Blbk" + "FJ" + _url64(74)),
        ("OpenAI service", "sk-svcacct-" + _url64(74) + "T3Blbk" + "FJ" + _url64(74)),
        ("Anthropic", "sk-ant-" + "api03-" + _url64(93) + "AA"),
        ("Anthropic admin", "sk-ant-" + "admin01-" + _url64(93) + "AA"),
        ("OpenRouter", "sk-or-v1-" + _hex(64)),
        ("DeepSeek", "sk-" + _hex(32)),
        ("Cohere by name", "COHERE_API_KEY=" + _some(40)),
        ("Mistral by name", "MISTRAL_API_KEY=" + _some(32)),
        ("Groq", "gsk_" + _some(52)),
        ("xAI", "xai-" + _some(80)),
        ("Perplexity", "pplx-" + _some(48)),
        ("Replicate", "r8_" + _some(37)),
        ("HuggingFace", "hf_" + "".join(_random.choices(_UPPER + _LOWER, k=34))),
        ("NVIDIA", "nvapi-" + _url64(64)),
        ("LangSmith", "lsv2_pt_" + _hex(32) + "_" + _hex(10)),
        ("Tavily", "tvly-dev-" + _some(32)),
        ("Fireworks", "fw_" + _some(24)),
        ("ElevenLabs by name", "ELEVENLABS_API_KEY=sk_" + _hex(48)),
        ("Weights & Biases by name", "WANDB_API_KEY=" + _hex(40)),
    ]


def _make_keys() -> list[tuple[str, str]]:
    netrc = f"machine api.example.net\n  login ann\n  password {_some(16)}\n"
    putty = (
        f"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n{_base64(36)}\n"
    )
    armor = _pem("PGP PRIVATE" + " KEY BLOCK").replace("-----\n", "-----\nVersion: 1\n\n", 1)
    return [
        ("private key", _pem("PRIVATE" + " KEY")),
        ("private key, encrypted", _pem("ENCRYPTED PRIVATE" + " KEY")),
        ("RSA key", _pem("RSA PRIVATE" + " KEY")),
        ("EC key", _pem("EC PRIVATE" + " KEY", 120)),
        ("DSA key", _pem("DSA PRIVATE" + " KEY")),
        ("SSH key", _pem("OPENSSH PRIVATE" + " KEY")),
        ("SSH key, quoted", "> " + _pem("OPENSSH PRIVATE" + " KEY", join="\n> ")),
        ("SSH key, indented", "    " + _pem("OPENSSH PRIVATE" + " KEY", join="\r\n    ")),
        ("PGP key", armor),
        ("age key", "AGE-SECRET-" + "KEY-1" + _some(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
        ("PuTTY key", putty),
        ("JSON Web Token", _jwt()),
        ("kubeconfig key", "    client-key-data: " + _base64(900)),
        ("kubeconfig token", "users:\n- user:\n    token: " + _jwt()),
        (
            "basic header",
            "Authorization: Basic " + base64.b64encode(f"ann:{_some(15)}".encode()).decode(),
        ),
        ("netrc", netrc),
        ("netrc in one line", f"machine h.example.net login ann password {_some(16)}"),
        ("postgres", f"postgres://app:{_some(14)}@db.internal:5432/app"),
        ("redis without a user", f"redis://:{_some(14)}@cache.internal:6379/0"),
        ("mongodb", f"mongodb+srv://app:{_some(14)}@c0.x1y2.mongodb.net/?w=majority"),
        ("amqp", f"amqp://app:{_some(14)}@mq.internal:5672/"),
        ("https with a token as user", f"https://{'ghp_' + _some(36)}@github.com/a/b.git"),
        ("cloudinary", f"cloudinary://{_digits(15)}:{_url64(27)}@demo"),
        ("password=", f"password={_some(16)}"),
        ("api_key:", f"api_key: {_some(32)}"),
        ("token =", f'token = "{_hex(40)}"'),
        ("secret in JSON", json.dumps({"secret": _some(32)})),
    ]


UNSEEN = _make_unseen()
CREDENTIALS = [
    *_make_clouds(),
    *_make_code(),
    *_make_services(),
    *_make_models(),
    *_make_keys(),
    *UNSEEN,
]
