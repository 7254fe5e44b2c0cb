# A vault that is served from a volume: docs/how-to/everyday.md, "In a container".
FROM python:3.13.7-slim-bookworm AS build

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY vaultmem vaultmem
COPY templates templates
COPY sample-vault sample-vault
RUN python -m venv /opt/vaultmem && /opt/vaultmem/bin/pip install --no-cache-dir ".[mcp,web]"

FROM python:3.13.7-slim-bookworm

# Whoever the vault's folder belongs to: git looks into nobody else's.
ARG UID=1000
# Debian keeps no older versions that could be named.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid "$UID" --home-dir /state --no-log-init vault \
    && install --directory --owner=vault --mode=0700 /vault /state

COPY --from=build /opt/vaultmem /opt/vaultmem
ENV PATH="/opt/vaultmem/bin:$PATH" \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/state \
    XDG_STATE_HOME=/state/state \
    XDG_CONFIG_HOME=/state/config \
    XDG_DATA_HOME=/state/data \
    VAULTMEM_VAULT=/vault

USER $UID
WORKDIR /vault
VOLUME ["/vault", "/state"]
EXPOSE 8377

# Nobody is let in without a code; that it says so is enough.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8377, timeout=4); c.request('GET', '/'); assert c.getresponse().status < 500"]

# All addresses of the container, to which its engine leads what it publishes. Only these names are
# answered, so publish the port under the same number.
CMD ["vaultmem", "serve", "--host", "0.0.0.0", "--allowed-host", "localhost", "--port", "8377"]
