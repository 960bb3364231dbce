#!/bin/sh
# Images and the compose demo: deploy/compose.sh image | base | base-image | demo
#
# image           the images of parties and demo, and a base for them where there is none
# base            only that base, if it is missing
# base-image      a stand-in for it in any case (root, debootstrap, a Debian mirror)
# demo            the images, then the compose demo
#
# BASE_IMAGE      base of the image; default python:3.12-slim where this machine has it or can pull
#                 it, else a stand-in made by `base-image`.
# STAND_IN_IMAGE  what the stand-in is called; default dppca-base:bookworm.
# BUILD_NETWORK   network of the build; default host.
# DPPCA_IMAGE, DPPCA_DEMO_IMAGE   what the images are called.
# PYTHON          Python whose pip knows how to reach the registry; default python3.
set -eu
cd "$(dirname "$0")/.."
stand_in=${STAND_IN_IMAGE:-dppca-base:bookworm}
usual=python:3.12-slim
export BUILD_NETWORK="${BUILD_NETWORK:-host}"

fail() {
    echo "$1" >&2
    exit 1
}

# Compose v2 where the engine's command line has it, 1.29 otherwise.
compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose "$@"
    elif command -v docker-compose >/dev/null; then
        docker-compose "$@"
    else
        fail "Compose is missing: install docker-compose 1.29 or newer, or the docker compose plugin"
    fi
}

# A Debian with Python where no registry of images can be reached; needs root and a Debian mirror.
base_image() {
    [ "$(id -u)" = 0 ] || fail "debootstrap needs root: set BASE_IMAGE, or run make base-image as root"
    if ! command -v debootstrap >/dev/null && command -v apt-get >/dev/null; then
        echo "installing debootstrap, which this machine lacks" >&2
        apt-get update -qq >&2 && apt-get install -y -qq debootstrap >&2
    fi
    command -v debootstrap >/dev/null ||
        fail "no $usual and no debootstrap: set BASE_IMAGE to an image with Python 3.11 and venv"
    tree=$(mktemp -d)
    trap 'rm -rf "$tree" build/pip' EXIT
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$tree" >&2
    for folder in var/cache/apt/archives var/lib/apt/lists usr/share/doc usr/share/man usr/share/locale; do
        rm -rf "${tree:?}/$folder"
        mkdir -p "$tree/$folder"
    done
    tar -C "$tree" -c . | docker import --message "Debian bookworm, made by debootstrap" - $stand_in >&2
    rm -rf "$tree"
}

choose_base() {
    [ -z "${BASE_IMAGE:-}" ] || return 0
    for name in $usual $stand_in; do
        if docker image inspect "$name" >/dev/null 2>&1; then
            BASE_IMAGE=$name
            return 0
        fi
    done
    echo "fetching $usual" >&2
    if docker pull --quiet $usual >&2; then
        BASE_IMAGE=$usual
    else
        echo "$usual cannot be pulled: making $stand_in instead" >&2
        base_image
        BASE_IMAGE=$stand_in
    fi
}

# What this machine's pip needs to reach its registry, for the stage that builds and no other.
collect_pip() {
    pip="${PYTHON:-python3} tools/install.py pip"
    rm -rf build/pip
    mkdir -p build/pip
    ca=${PIP_CERT:-$($pip config get global.cert 2>/dev/null || true)}
    [ -z "$ca" ] || cp "$ca" build/pip/ca.pem
    index=${PIP_INDEX_URL:-$($pip config get global.index-url 2>/dev/null || true)}
    [ -z "$index" ] || printf '[global]\nindex-url = %s\n' "$index" >build/pip/pip.conf
}

base() {
    docker info >/dev/null 2>&1 || fail "no Docker engine answers: start it, or join its group"
    choose_base
    export BASE_IMAGE
}

build() {
    docker build --network "$BUILD_NETWORK" --build-arg BASE_IMAGE="$BASE_IMAGE" \
        --build-arg REVISION="$REVISION" --file deploy/Dockerfile --target "$1" --tag "$2" .
}

images() {
    base
    collect_pip
    trap 'rm -rf build/pip' EXIT
    REVISION=$(sh deploy/revision.sh)
    export REVISION
    echo "building from $BASE_IMAGE; the first time takes some minutes" >&2
    # The classic builder keeps stages as images. Names for them keep its cache in sight; BuildKit
    # has a cache of its own.
    if ! docker buildx version >/dev/null 2>&1; then
        build build dppca-build:local
        build rows dppca-rows:local
    fi
    build runtime "${DPPCA_IMAGE:-dppca:local}"
    build demo "${DPPCA_DEMO_IMAGE:-dppca-demo:local}"
    # What a changed source tree has replaced has lost its name.
    docker image prune --force --filter label=dppca.stage >/dev/null
}

# End the demo's containers, networks and volumes; say something only where that fails.
remove_demo() {
    rm -rf build/pip
    said=$(compose down --volumes --timeout 5 2>&1) || echo "$said" >&2
}

demo() {
    compose version >/dev/null
    images
    mkdir -p results
    export COMPOSE_PROJECT_NAME=dppca-demo
    # From the beginning each time: a data set's lifetime budget allows one release.
    remove_demo
    trap remove_demo EXIT
    trap 'exit 130' INT TERM
    compose up
    code=$(docker inspect --format '{{.State.ExitCode}}' "$(compose ps --all --quiet results)")
    [ "$code" = 0 ] || fail "the demo study did not come to its end: see the messages above"
}

case "${1:-}" in
    image) images ;;
    base) base ;;
    base-image) base_image ;;
    demo) demo ;;
    *) fail "deploy/compose.sh image | base | base-image | demo" ;;
esac
