# A worker. From the root of the checkout:
#   docker build -f deploy/worker.Dockerfile -t luthier-worker .
# For objectives of kind "command", build your own image FROM luthier-worker with what your program needs.
# The build stage is the same text in server.Dockerfile and worker.Dockerfile, so it is built once and cached.
ARG BASE=debian:bookworm-slim
FROM ${BASE} AS build
COPY tools/packages.txt tools/install_packages.sh /src/tools/
RUN /src/tools/install_packages.sh build && rm -rf /var/lib/apt/lists/*
COPY . /src
WORKDIR /src
# One instruction-set level for all programs that share a database: suggestions are replayed bit for bit only within one
# level. x86-64-v3 runs on processors since 2015 (AVX2, FMA); use x86-64-v2 for older ones. Other architectures: their own.
ARG LUTHIER_MARCH=x86-64-v3
ARG LUTHIER_JOBS=
RUN if [ "$(dpkg --print-architecture)" = amd64 ]; then march=$LUTHIER_MARCH; else march=; fi \
 && cmake --preset release -B /build -DLUTHIER_BUILD_TESTS=OFF -DLUTHIER_BUILD_BENCH=OFF -DLUTHIER_WERROR=OFF "-DLUTHIER_MARCH=$march" \
 && cmake --build /build -j "${LUTHIER_JOBS:-$(nproc)}" --target luthierd luthier-worker luthier \
 && strip /build/bin/luthierd /build/bin/luthier-worker /build/bin/luthier

FROM ${BASE}
COPY tools/packages.txt tools/install_packages.sh /tmp/tools/
RUN /tmp/tools/install_packages.sh run && rm -rf /var/lib/apt/lists/* /tmp/tools \
 && useradd --system --uid 10001 --user-group --home-dir /var/lib/luthier-worker --shell /usr/sbin/nologin luthier \
 && install -d -o luthier -g luthier -m 0700 /var/lib/luthier-worker \
 && install -d /srv/luthier
COPY --from=build /build/bin/luthier-worker /usr/local/bin/
COPY LICENSE NOTICE /usr/local/share/doc/luthier/
USER luthier
# Results that are not delivered yet, and snapshots: they outlive a restart of the container.
ENV XDG_STATE_HOME=/var/lib/luthier-worker
VOLUME /var/lib/luthier-worker
WORKDIR /var/lib/luthier-worker
STOPSIGNAL SIGTERM
ENTRYPOINT ["luthier-worker", "--data-root", "/srv/luthier"]
CMD ["--server", "coordinator:7790"]
