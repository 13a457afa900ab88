FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY consumer ./consumer
COPY pyspark_ticdc ./pyspark_ticdc
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
# Not pinned: Debian keeps only the newest security fix of a package, so a pinned build would soon fail.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
# More storages: --build-arg EXTRAS=gcs,azure
ARG EXTRAS=""
COPY requirements.lock requirements-dev.lock /tmp/locks/
COPY --from=build /wheels /wheels
# As constraints they pin every version without bringing the development tools in. The second has the packages of EXTRAS.
RUN pip install --no-cache-dir --constraint /tmp/locks/requirements.lock --constraint /tmp/locks/requirements-dev.lock \
    "$(echo /wheels/*.whl)${EXTRAS:+[$EXTRAS]}" \
    && rm -rf /wheels /tmp/locks
# Lakes as targets: --build-arg LAKES=1; on S3: --build-arg LAKES=s3
ARG LAKES=""
RUN [ -z "$LAKES" ] || python -m consumer.sink.lake.fetch ${LAKES#1}
RUN useradd --create-home --uid 10001 consumer \
    && install --directory --owner consumer --group consumer /data
USER 10001
# What Spark's JVM loads at every start, once and for all: halves the start.
RUN python -m consumer.spark.make_archive
# Where a relative duckdb:///file.duckdb lands; mount a volume here to keep it.
WORKDIR /data
# A container has no time zone of its own: --tz is the changefeed's.
ENV PYTHONUNBUFFERED=1 TZ=UTC
ENTRYPOINT ["storage-consumer"]
CMD ["--help"]
