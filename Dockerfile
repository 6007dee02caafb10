# An image of one node, and of the command line: `docker build -t gd2fs .`
#
# The wheel is made with all that it links, so that the second stage needs neither compiler nor headers.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ libssl-dev libxxhash-dev patchelf \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python -m pip install --no-cache-dir auditwheel \
    && python -m pip wheel --no-deps -w /wheels/plain . \
    && python -m auditwheel repair -w /wheels/whole /wheels/plain/*.whl

FROM python:${PYTHON}-slim-bookworm
# tini ends what is left of children and passes signals on: a node is process 2, not 1.
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --home-dir /nonexistent --shell /usr/sbin/nologin gd2fs
RUN --mount=type=bind,from=build,source=/wheels/whole,target=/wheels \
    wheel=$(ls /wheels/*.whl) \
    && python -m pip install --no-cache-dir "${wheel}[etcd,kubernetes]"
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
EXPOSE 7527 8080
# Where the admin port is another one, or has TLS, the orchestrator's own probes are to be used.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["tini", "--", "gd2fs"]
CMD ["--help"]
