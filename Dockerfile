# The scheduler with its plugins, ready for manifests/base/deployment.yaml:
#
#   docker build -t pyscheduler:0.1.0 .

# Base images by digest and packages by hash: the same bytes on every build. To move to a newer Python, take both digests
# from `docker buildx imagetools inspect`; both are of Python 3.13.15.
#
# Not the slim one: it has the compiler that pyscheduler.kernels is built with.
FROM python:3.13-trixie@sha256:82c46c08c991d3d3ff10476ac5e386c2c28f27bbd3985a02c5e39fe99ab272eb AS build
WORKDIR /src
COPY pyproject.toml requirements.txt requirements-build.txt README.md LICENSE ./
COPY pyscheduler pyscheduler
COPY plugins plugins
COPY manifests manifests
COPY config config
# `make constraints` writes both files of hashes. But for the kernels nothing that runs is compiled here.
RUN python -m venv /build \
 && /build/bin/python -m pip install --no-cache-dir --require-hashes -r requirements-build.txt \
 && /build/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python -m venv /opt/pyscheduler \
 && /opt/pyscheduler/bin/python -m pip install --no-cache-dir --only-binary=:all: --require-hashes -r requirements.txt \
 && /opt/pyscheduler/bin/python -m pip install --no-cache-dir --no-index --no-deps /wheels/*.whl

FROM python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285
# pip has written all bytecode, so nothing has to be written at run time: the root file system may be read-only.
# The user has no entry in passwd, and the Kubernetes client will not start without a home.
ENV PATH=/opt/pyscheduler/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/pyscheduler /opt/pyscheduler
# Where the manifests mount the ConfigMap. Modules of the working directory count, so a plugin may lie beside config.yaml.
WORKDIR /etc/pyscheduler
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["pyscheduler"]
CMD ["--help"]
