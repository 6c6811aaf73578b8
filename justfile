# The steps of `.ci/run`, one recipe each. `just` is a convenience: `.ci/run STEP` does the same without it.

# list the recipes
default:
    @just --list

# everything CI runs
ci:
    .ci/run

# the tests, on the in-memory server
test:
    .ci/run test

# the models of the informer's core and of the work queue, under ten thousand schedules
model:
    .ci/run model

# a fuzz target, or `all`, for so many seconds each: see CONTRIBUTING.md
fuzz target seconds="600":
    fuzz/run {{target}} {{seconds}}

# formatting
fmt:
    .ci/run fmt

# lints
clippy:
    .ci/run clippy

# the work queue alone, without Kubernetes
queue:
    .ci/run queue

# the engine of collections alone, without Kubernetes, and on many random histories
engine:
    .ci/run engine

# documentation with broken links denied
doc:
    .ci/run doc

# the examples, run
examples:
    .ci/run examples

# build the real API server, kubectl and the foreign suite (Go)
rig:
    .ci/run rig

# the suites on the real API server
real:
    .ci/run real

# a foreign suite: controller-runtime's tests of its client, on both servers
foreign:
    .ci/run foreign

# licences, sources and duplicate versions (needs cargo-deny)
deny:
    cargo deny --all-features check bans licenses sources
