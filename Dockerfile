# The image of poseidon-reconciler: a virtual environment from the hash-locked requirements, and nothing to build with.
# `make image` builds it. tests/deployment/ performs these very steps where there is no container engine.

FROM python:3.13-slim-trixie AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements.txt requirements-build.txt ./
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes --only-binary :all: -r requirements-build.txt
RUN python3 -m venv --without-pip /opt/poseidon-reconciler \
    && /opt/build/bin/pip --python /opt/poseidon-reconciler/bin/python install \
        --require-hashes --only-binary :all: -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY poseidon_reconciler ./poseidon_reconciler
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /opt/build/wheels . \
    && /opt/build/bin/pip --python /opt/poseidon-reconciler/bin/python install --no-deps /opt/build/wheels/*.whl

FROM python:3.13-slim-trixie
LABEL org.opencontainers.image.title="poseidon-reconciler" \
      org.opencontainers.image.description="Keeps Poseidon's pools of prewarmed Nomad runners full" \
      org.opencontainers.image.licenses="MIT"
# What is in here takes precedence over a configuration file.
ENV PATH=/opt/poseidon-reconciler/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    RECONCILER_STATE_DIR=/var/lib/poseidon-reconciler
# Before the volume is declared: a new volume takes over owner and mode.
RUN install -d -m 0700 -o 10001 -g 10001 /var/lib/poseidon-reconciler
COPY --from=build /opt/poseidon-reconciler /opt/poseidon-reconciler
VOLUME /var/lib/poseidon-reconciler
USER 10001:10001
EXPOSE 8646
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 CMD ["poseidon-reconciler", "health"]
ENTRYPOINT ["poseidon-reconciler"]
CMD ["run"]
