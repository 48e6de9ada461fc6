# The scheduler and its plugins, ready for manifests/base/deployment.yaml:
#
#   docker build -t pyscheduler:0.1.0 .

# Not the slim one: it has the compiler that pyscheduler.kernels is built with.
FROM python:3.13-trixie AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY pyscheduler pyscheduler
COPY plugins plugins
# Every version is said: what builds here, what runs in constraints.txt. But for the kernels nothing that runs is
# compiled here.
RUN python -m venv /build \
 && /build/bin/python -m pip install --no-cache-dir setuptools==80.9.0 \
 && /build/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . ./plugins \
 && python -m venv /opt/pyscheduler \
 && /opt/pyscheduler/bin/python -m pip install --no-cache-dir --only-binary=:all: -c constraints.txt /wheels/*.whl

FROM python:3.13-slim-trixie
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
