# What CI does, in its order.
ci:
    .ci/run

# The tests of the README: unit, integration and documentation tests.
test *args:
    cargo test --release {{ args }}

# The same with cargo-nextest, each test in a process of its own; such as `just nextest -E 'test(tools)'`.
nextest *args:
    cargo nextest run --release {{ args }}

# The crates that the library is made of, in seconds and without wasmtime; such as `just part files`.
part name:
    cargo test -p belljar-{{ name }} --target-dir target/parts

# The engine without Python, in seconds: limits, files, sessions, stores, tools; such as `just toy tools`.
toy *subject:
    cargo test --release --test toy -- {{ subject }}

# One subject of the integration tests, such as `just it limits`.
it subject:
    cargo test --release --test it -- {{ subject }}

# Guest programs that are tests, such as `just case contract_03`.
case name:
    cargo test --release --test cases -- {{ name }}

# Every promise of docs/reference/budgets.md beside what this machine does.
bench *args:
    cargo bench {{ args }}

# Formats Rust and Python alike.
fmt:
    cargo fmt --all
    cd python-wasm && ruff format . ../examples

# Wheels, packages, images and bundles into dist/; such as `just release package x86_64-linux`.
release *args:
    .ci/release {{ args }}
