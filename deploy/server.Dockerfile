# The coordinator and the command line. From the root of the checkout:
#   docker build -f deploy/server.Dockerfile -t luthier-server .
# The build stage is the same text in server.Dockerfile and worker.Dockerfile, so it is built once and cached.
ARG BASE=debian:bookworm-slim
FROM ${BASE} AS build
# A folder of the context with programs that are built already (deploy/test_containers.sh); empty: they are built here.
ARG LUTHIER_PREBUILT=
COPY tools/packages.txt tools/install_packages.sh /src/tools/
RUN [ -n "$LUTHIER_PREBUILT" ] || { /src/tools/install_packages.sh build && rm -rf /var/lib/apt/lists/* /var/cache/apt/*; }
COPY . /src
WORKDIR /src
# One instruction-set level for all programs that share a database: suggestions are replayed bit for bit only within one
# level. x86-64-v3 runs on processors since 2015 (AVX2, FMA); use x86-64-v2 for older ones. Other architectures: their own.
ARG LUTHIER_MARCH=x86-64-v3
ARG LUTHIER_JOBS=
RUN if [ -n "$LUTHIER_PREBUILT" ]; then mkdir -p /build && cp -r "$LUTHIER_PREBUILT" /build/bin && exit; fi \
 && if [ "$(dpkg --print-architecture)" = amd64 ]; then march=$LUTHIER_MARCH; else march=; fi \
 && cmake --preset release -B /build -DLUTHIER_BUILD_TESTS=OFF -DLUTHIER_BUILD_BENCH=OFF "-DLUTHIER_MARCH=$march" \
 && cmake --build /build -j "${LUTHIER_JOBS:-$(nproc)}" --target luthier-programs luthier-worker \
 && strip /build/bin/luthier-programs /build/bin/luthier-worker

FROM ${BASE}
COPY tools/packages.txt tools/install_packages.sh /tmp/tools/
RUN /tmp/tools/install_packages.sh run && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /var/cache/debconf/*-old /tmp/tools \
 && rm -f /usr/share/doc/*/changelog* /var/lib/dpkg/info/*.symbols /var/lib/dpkg/*-old \
 && groupadd --gid 10001 luthier \
 && useradd --uid 10001 --gid luthier --home-dir /data --no-create-home --shell /usr/sbin/nologin luthier \
 && install -d -o luthier -g luthier -m 0700 /data /access/worker /access/user
# One file, which is the program that it is called by: half the bytes of the two.
COPY --from=build /build/bin/luthier-programs /usr/local/bin/programs/
RUN ln -s programs/luthier-programs /usr/local/bin/luthierd && ln -s programs/luthier-programs /usr/local/bin/luthier
COPY deploy/serve.sh LICENSE NOTICE /usr/local/share/luthier/
# By number, so that a runtime can tell that it is not root. 999 and below are often groups of the host.
USER 10001:10001
# The first two are luthierd's; by the third, `docker exec CONTAINER luthier …` is the administrator.
ENV LUTHIER_DATA=/data LUTHIER_LISTEN=0.0.0.0:7790 LUTHIER_SERVER=unix:/data/socket
VOLUME /data
EXPOSE 7790 7792
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=2s --timeout=5s --start-period=30s --retries=5 CMD ["luthier", "health"]
ENTRYPOINT ["luthierd"]
# Beyond loopback luthierd wants a certificate: --tls-cert and --tls-key, or the entry point
# /usr/local/share/luthier/serve.sh, which makes both, as docker-compose.yml has it.
CMD []
